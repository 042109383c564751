//! The namespace in memory: inodes and directories, changed only by applying [`Record`]s.
//!
//! **Invariant:** applying a record never fails and never looks at a clock: whoever makes a record has checked before
//! that it fits, and a log replays what was checked then. (A log of another tree would not fit; recovery checks that.)

mod entries;
mod folder;
mod inode;
mod kept;
pub mod weight;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use foldhash::fast::FixedState;
use model::Ino;
use wire::data::{FileKind, ROOT, Time};

use super::record::{AttrChange, InodeRecord, Kind, Record};
use super::removed::Removed;
use super::{acl, epochs::Epochs};
use folder::Folder;
use kept::inode_from;
use weight::Weight;

/// A directory entry's name; shared by the two indexes of a directory.
pub type Name = Arc<[u8]>;

/// Extended attributes by name.
pub type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// One inode.
#[derive(Clone, Debug, PartialEq)]
pub struct Inode {
    pub kind: FileKind,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    /// The size when `live` is false; else a lower bound of no use.
    pub size: u64,
    /// Somebody writes, or wrote when the shard died, or there is a hole, or the size was perhaps lost: ask the
    /// fragments.
    pub live: bool,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    /// What a size that was measured belongs to; kept on disk while the inode is live.
    pub epoch: u64,
    /// Times that `mtime` was set; kept on disk while the inode is live.
    pub times: u64,
    /// `None` where there are none: most inodes have none.
    pub xattrs: Option<Xattrs>,
    folder: Folder,
    pub body: Body,
}

/// What only some kinds of inode have.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    None,
    Symlink(Box<[u8]>),
    Directory(Box<Directory>),
}

/// A directory's entries, by name and by the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directory {
    pub parent: Ino,
    entries: BTreeMap<Name, (Ino, u64)>,
    by_cookie: BTreeMap<u64, Name>,
    next_cookie: u64,
}

impl Directory {
    /// The inode behind a name.
    pub fn get(&self, name: &[u8]) -> Option<Ino> {
        self.entries.get(name).map(|&(ino, _)| ino)
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether one of the names is this inode's.
    fn holds(&self, ino: Ino) -> bool {
        self.entries.values().any(|(of, _)| *of == ino)
    }

    /// Entries after `cookie`, in the order in which they were made: (cookie, name, inode).
    pub fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &Name, Ino)> {
        self.by_cookie
            .range((Bound::Excluded(cookie), Bound::Unbounded))
            .filter_map(|(&cookie, name)| Some((cookie, name, self.get(name)?)))
    }

    fn insert(&mut self, name: &[u8], ino: Ino) -> bool {
        let cookie = self.next_cookie.max(1);
        self.insert_at(name, ino, cookie)
    }

    /// Whether the name is new.
    fn insert_at(&mut self, name: &[u8], ino: Ino, cookie: u64) -> bool {
        self.next_cookie = self.next_cookie.max(cookie + 1);
        let name: Name = Arc::from(name);
        let former = self.entries.insert(name.clone(), (ino, cookie));
        former.iter().for_each(|(_, old)| drop(self.by_cookie.remove(old)));
        self.by_cookie.insert(cookie, name);
        former.is_none()
    }

    fn remove(&mut self, name: &[u8]) -> Option<Ino> {
        let (ino, cookie) = self.entries.remove(name)?;
        self.by_cookie.remove(&cookie);
        Some(ino)
    }
}

/// The whole namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Boxed: half of the table's places may be free, and an inode has 160 bytes. Numbers are given by us, so nobody
    /// can choose them to collide.
    inodes: HashMap<Ino, Box<Inode>, FixedState>,
    /// Regular files without a name whose objects may still exist.
    orphans: BTreeSet<Ino>,
    /// Everything else without a name that may still be open.
    removed: Removed,
    next_ino: Ino,
    epochs: Epochs,
    weight: Weight,
}

impl Tree {
    /// A tree with nothing but its root.
    pub fn new(root: InodeRecord) -> Tree {
        let mut tree = Tree::empty();
        tree.add(ROOT, inode_from(root));
        tree
    }

    /// A tree with nothing at all, to apply a snapshot to.
    pub fn empty() -> Tree {
        Tree {
            inodes: HashMap::default(),
            orphans: BTreeSet::new(),
            removed: Removed::default(),
            next_ino: ROOT + 1,
            epochs: Epochs::default(),
            weight: Weight::default(),
        }
    }

    /// The inode of this number.
    pub fn get(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino).map(Box::as_ref)
    }

    /// The number that the next new inode gets.
    pub fn next_ino(&self) -> Ino {
        self.next_ino
    }

    /// No number below `next` is given out any more.
    pub fn number_from(&mut self, next: Ino) {
        self.next_ino = self.next_ino.max(next);
    }

    /// How many inodes there are that take room: all but removed folders and the like.
    pub fn len(&self) -> usize {
        self.inodes.len() - self.removed.len()
    }

    /// Whether this is a regular file without a name whose objects may still exist.
    pub fn is_orphan(&self, ino: Ino) -> bool {
        self.orphans.contains(&ino)
    }

    /// Regular files without a name whose objects may still exist.
    pub fn orphans(&self) -> impl Iterator<Item = Ino> {
        self.orphans.iter().copied()
    }

    /// All regular files.
    pub fn files(&self) -> impl Iterator<Item = (Ino, &Inode)> {
        let files = self.inodes.iter().filter(|(_, inode)| inode.kind == FileKind::Regular);
        files.map(|(ino, inode)| (*ino, inode.as_ref()))
    }

    /// Whether this is a regular file whose size the inode has.
    pub fn is_settled(&self, ino: Ino) -> bool {
        self.get(ino).is_some_and(|inode| inode.kind == FileKind::Regular && !inode.live)
    }

    /// The records that make this tree from an empty one.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let inodes = self.inodes.iter().filter(|(_, inode)| !inode.is_removed());
        let inodes = inodes.map(|(&ino, inode)| (ino, inode.as_ref()));
        // In their order: the oldest is the next to be forgotten.
        let removed = self.removed.iter().filter_map(|ino| Some((ino, self.get(ino)?)));
        let inodes =
            inodes.chain(removed).map(|(ino, inode)| Record::Inode { ino, inode: inode.to_record() });
        let entries = self.inodes.iter().flat_map(|(&parent, inode)| {
            let directory = match &inode.body {
                Body::Directory(directory) => Some(directory),
                _ => None,
            };
            directory.into_iter().flat_map(move |directory| {
                directory.after(0).map(move |(cookie, name, ino)| Record::Entry {
                    parent,
                    name: name.to_vec(),
                    ino,
                    cookie,
                })
            })
        });
        let counted = self.inodes.iter().filter(|(_, inode)| inode.live && inode.times + inode.epoch > 0);
        let counted =
            counted.map(|(&ino, inode)| Record::Counted { ino, times: inode.times, epoch: inode.epoch });
        let numbers = [Record::NextIno { next: self.next_ino }, self.epochs.snapshot()];
        numbers.into_iter().chain(inodes).chain(entries).chain(counted)
    }

    /// Applies one change.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Inode { ino, inode } => {
                self.add(*ino, inode_from(inode.clone()));
                if inode.nlink == 0 {
                    self.without_name(*ino, inode.kind.into());
                }
            }
            Record::Entry { parent, name, ino, cookie } => self.put(*parent, name, *ino, *cookie),
            Record::NextIno { next } => self.next_ino = self.next_ino.max(*next),
            Record::Make { parent, name, ino, inode } => self.make(*parent, name, *ino, inode),
            Record::Link { ino, parent, name, time } => {
                self.enter(*parent, name, *ino, *time);
                self.change(*ino, |inode| {
                    inode.nlink += 1;
                    inode.ctime = *time;
                });
            }
            Record::Remove { parent, name, time } => self.remove(*parent, name, *time),
            Record::Rename { parent, name, new_parent, new_name, time } => {
                self.rename((*parent, name), (*new_parent, new_name), *time);
            }
            Record::Exchange { parent, name, new_parent, new_name, time } => {
                self.exchange((*parent, name), (*new_parent, new_name), *time);
            }
            Record::SetAttr { ino, change } => self.set_attr(*ino, change),
            Record::SetXattr { ino, name, value, time } => self.reweigh(*ino, |inode| {
                inode.xattrs.get_or_insert_default().insert(name.clone(), value.clone());
                inode.ctime = *time;
            }),
            Record::RemoveXattr { ino, name, time } => self.reweigh(*ino, |inode| {
                inode.xattrs.iter_mut().for_each(|xattrs| drop(xattrs.remove(name)));
                inode.ctime = *time;
            }),
            Record::SetAcl { ino, mode, value, time } => self.reweigh(*ino, |inode| {
                let xattrs = inode.xattrs.get_or_insert_default();
                xattrs.remove(acl::ACCESS);
                xattrs.extend(value.clone().map(|value| (acl::ACCESS.to_vec(), value)));
                (inode.mode, inode.ctime) = (*mode, *time);
            }),
            Record::Opened { ino } => self.doubt_size(*ino),
            Record::Settled { ino, size, mtime } => self.change(*ino, |inode| {
                (inode.size, inode.live) = (*size, false);
                if *mtime != inode.mtime {
                    (inode.mtime, inode.ctime) = (*mtime, inode.ctime.max(*mtime));
                }
            }),
            Record::Counted { ino, times, epoch } => {
                self.epochs.given(*epoch);
                self.change(*ino, |inode| (inode.times, inode.epoch) = (*times, *epoch));
            }
            Record::Destroyed { ino } => {
                self.orphans.remove(ino);
                self.forget(*ino);
            }
            Record::Verified { .. } => self.doubt_sizes(),
            Record::Epochs { last } => self.epochs.given(*last),
            Record::Answered { .. }
            | Record::Began { .. }
            | Record::Ended { .. }
            | Record::Reserved { .. }
            | Record::Placed { .. }
            | Record::Followed { .. }
            | Record::Cut { .. }
            | Record::Confirmed { .. }
            | Record::Synced { .. }
            | Record::Begun
            | Record::Losses(_)
            | Record::Numbered { .. } => {}
        }
    }

    fn set_attr(&mut self, ino: Ino, change: &AttrChange) {
        let epoch = change.size.map(|_| self.epochs.draw());
        self.reweigh(ino, |inode| {
            inode.set(change);
            inode.times += u64::from(change.mtime.is_some());
            inode.epoch = epoch.unwrap_or(inode.epoch);
        });
    }

    fn doubt_size(&mut self, ino: Ino) {
        let epoch = self.epochs.draw();
        self.change(ino, |inode| inode.doubt_size(epoch));
    }

    /// The sizes of files are what the fragments have. A time of change that was set holds ([`wire::data::Attr`]).
    fn doubt_sizes(&mut self) {
        let epoch = self.epochs.draw_after_power_loss();
        for inode in self.inodes.values_mut().filter(|inode| inode.kind == FileKind::Regular) {
            inode.times = inode.times.max(u64::from(!inode.live));
            inode.doubt_size(epoch);
        }
    }

    fn make(&mut self, parent: Ino, name: &[u8], ino: Ino, record: &InodeRecord) {
        let time = record.ctime;
        self.add(ino, inode_from(record.clone()));
        self.next_ino = self.next_ino.max(ino + 1);
        self.enter(parent, name, ino, time);
        if record.kind == Kind::Directory {
            self.change(parent, |inode| inode.nlink += 1);
        }
    }

    fn remove(&mut self, parent: Ino, name: &[u8], time: Time) {
        let Some(ino) = self.leave(parent, name, time) else { return };
        if self.is_directory(ino) {
            self.change(parent, |inode| inode.nlink -= 1);
        }
        self.drop_name(ino, time);
    }

    fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), time: Time) {
        let Some(ino) = self.leave(from.0, from.1, time) else { return };
        if self.directory(to.0).and_then(|directory| directory.get(to.1)).is_some() {
            self.remove(to.0, to.1, time);
        }
        self.enter(to.0, to.1, ino, time);
        self.moved(ino, from.0, to.0, time);
    }

    fn exchange(&mut self, a: (Ino, &[u8]), b: (Ino, &[u8]), time: Time) {
        let (Some(from_a), Some(from_b)) = (self.leave(a.0, a.1, time), self.leave(b.0, b.1, time)) else {
            return;
        };
        self.enter(b.0, b.1, from_a, time);
        self.enter(a.0, a.1, from_b, time);
        self.moved(from_a, a.0, b.0, time);
        self.moved(from_b, b.0, a.0, time);
    }

    /// Keeps what depends on where an inode's name is: a directory's parent and the parents' link counts.
    fn moved(&mut self, ino: Ino, from: Ino, to: Ino, time: Time) {
        self.change(ino, |inode| inode.ctime = time);
        if from == to || !self.is_directory(ino) {
            return;
        }
        if let Some(directory) = self.directory(ino) {
            directory.parent = to;
        }
        self.change(from, |inode| inode.nlink -= 1);
        self.change(to, |inode| inode.nlink += 1);
    }

    fn change(&mut self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            change(inode);
        }
    }

    fn is_directory(&self, ino: Ino) -> bool {
        self.inodes.get(&ino).is_some_and(|inode| inode.kind == FileKind::Directory)
    }
}
