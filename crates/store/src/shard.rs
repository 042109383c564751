//! The home shard: the metadata of one namespace.
//!
//! A request is checked against the tree in memory, written to the log, applied to the tree, and answered: in this order,
//! under one lock, so that nothing is answered that a `kill -9` could take back. The size of a file that somebody writes
//! is what the fragments have ([`Inode::live`]); when the last writer closes, writers' reports make it the shard's again.

pub mod attributes;
mod destroy;
mod handles;
mod locking;
mod locks;
pub mod log;
mod names;
pub mod record;
pub mod sessions;
pub mod tree;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use model::stripe::Layout;
use rustix::io::Errno;
use wire::data::message::{InodeReply, RenameMode};
use wire::data::{Creator, DirEntry, FileKind, ROOT, Reply, Request, Time};
use wire::node::NamespaceSpec;

use crate::fragment::objects::Objects;
use crate::peers::Peers;
use destroy::Destroyer;
use locks::Locks;
use log::{Log, LogError};
use names::NewInode;
use record::{AttrChange, Entry, InodeRecord, Kind, Origin, Record};
use sessions::{Outcome, Sessions};
use tree::{Inode, Tree};

/// Entries in one page of a directory, and bytes of names: a page must fit one message.
const PAGE_ENTRIES_MAX: usize = 512;
const PAGE_NAME_BYTES_MAX: usize = 64 << 10;

/// The log is written anew when it is this long and several times what the tree needs.
const COMPACT_BYTES_MIN: u64 = 64 << 20;
/// A generous guess of what one inode with its entry takes in a snapshot, bytes.
const SNAPSHOT_BYTES_PER_INODE: u64 = 256;

/// The metadata of one namespace.
pub struct Shard {
    layout: Layout,
    /// This node's objects: all there is of a file when the instance has one fragment.
    objects: Arc<Objects>,
    peers: Arc<Peers>,
    state: Mutex<State>,
    /// Truncations of one inode are serialised: the fragments must all end at the same size.
    truncating: [Mutex<()>; 64],
    destroyer: Destroyer,
    /// Told whenever a lock was given up.
    unlocked: Condvar,
}

struct State {
    tree: Tree,
    log: Log,
    sessions: Sessions,
    locks: Locks,
    /// Where the next append goes, by inode, while files are appended to from several nodes.
    ends: HashMap<u64, u64>,
}

/// Who asks, and by which request.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The client.
    pub session: [u8; 16],
    /// The request's id.
    pub id: u64,
}

impl Shard {
    /// Opens the namespace whose log is at `log_path`, making it if it is new.
    ///
    /// # Errors
    /// [`LogError`]: nothing is served then.
    pub fn open(
        log_path: &Path,
        spec: &NamespaceSpec,
        objects: Arc<Objects>,
        peers: Arc<Peers>,
    ) -> Result<Arc<Shard>, LogError> {
        let mut state = if log_path.exists() { recover(log_path)? } else { create(log_path, spec)? };
        if state.log.len() > 4 * snapshot_bytes(&state.tree) {
            state.compact()?;
        }
        let shard = Arc::new(Shard {
            layout: spec.layout,
            objects,
            peers,
            state: Mutex::new(state),
            truncating: [const { Mutex::new(()) }; 64],
            destroyer: Destroyer::default(),
            unlocked: Condvar::new(),
        });
        destroy::start(&shard);
        Ok(shard)
    }

    /// Answers one metadata request.
    pub fn handle(&self, caller: Caller, request: Request) -> Reply {
        self.answer(caller, request).unwrap_or_else(|errno| Reply::Failed(errno.raw_os_error()))
    }

    /// A connection of this session is there.
    pub fn connected(&self, session: [u8; 16]) {
        self.lock().sessions.connected(session);
    }

    /// A connection of this session went.
    pub fn disconnected(&self, session: [u8; 16]) {
        self.lock().sessions.disconnected(session, Instant::now());
    }

    /// The object of a file, for the kernel to use without us.
    ///
    /// # Errors
    /// ENOTSUP where that is not the whole file, or where the kernel would not keep the capacity.
    pub fn descriptor(&self, ino: u64) -> std::io::Result<OwnedFd> {
        if !self.measures_itself() {
            return Err(Errno::NOTSUP.into());
        }
        let inode = self.lock().tree.get(ino).map(|inode| inode.attr(ino)).ok_or(Errno::STALE)?;
        self.objects.descriptor(ino, inode.atime, inode.mtime)
    }

    /// How many inodes the namespace has.
    pub fn inodes(&self) -> u64 {
        self.lock().tree.len() as u64
    }

    /// Stops the threads that work for this shard.
    pub fn close(&self) {
        self.destroyer.close();
    }

    fn answer(&self, caller: Caller, request: Request) -> Result<Reply, Errno> {
        match request {
            Request::Lookup { parent, name } => {
                let state = self.lock();
                let ino = names::lookup(&state.tree, parent, &name)?;
                self.inode_reply(&state, ino)
            }
            Request::GetAttr { ino } => self.inode_reply(&self.lock(), ino),
            Request::SetAttr { ino, set } => self.set_attr(caller, ino, &set),
            Request::Create { parent, name, mode, creator } => {
                let made = self.create(caller, parent, &name, mode, creator)?;
                Ok(self.with_parent(made, parent))
            }
            Request::Make { parent, name, kind, mode, rdev, target, creator } => {
                let new = NewInode { kind, mode, rdev, target: &target, creator, live: false };
                let made = self.make(caller, parent, &name, &new)?;
                Ok(self.with_parent(made, parent))
            }
            Request::Link { ino, parent, name } => self.changing(caller, |state, time| {
                Ok((names::link(&state.tree, ino, parent, &name, time)?, Outcome::Inode(ino)))
            }),
            Request::Unlink { parent, name } => {
                let removed = self.unlink(caller, parent, &name)?;
                Ok(self.with_parent(removed, parent))
            }
            Request::Rmdir { parent, name } => {
                let removed = self.changing(caller, |state, time| {
                    Ok((names::rmdir(&state.tree, parent, &name, time)?, Outcome::Done))
                })?;
                Ok(self.with_parent(removed, parent))
            }
            Request::Rename { parent, name, new_parent, new_name, mode } => {
                let rename = names::Move { parent, name: &name, new_parent, new_name: &new_name, mode };
                self.rename(caller, &rename)
            }
            Request::ReadDir { ino, cookie } => self.read_dir(ino, cookie),
            Request::ReadLink { ino } => match &self.lock().tree.get(ino).ok_or(Errno::STALE)?.body {
                tree::Body::Symlink(target) => Ok(Reply::Bytes(target.to_vec())),
                _ => Err(Errno::INVAL),
            },
            Request::Open { ino, write } => self.open_file(caller, ino, write),
            Request::Close { handles } => self.close_files(caller, &handles),
            Request::Settle { ino, size, mtime, epoch } => self.settle(ino, size, mtime, epoch),
            Request::Reclaim { opens } => self.reclaim(caller, &opens),
            Request::GetXattr { .. }
            | Request::SetXattr { .. }
            | Request::ListXattr { .. }
            | Request::RemoveXattr { .. } => self.xattr(caller, request),
            Request::SyncMetadata => self.sync(),
            Request::AwaitDestroyed => {
                self.destroyer.wait_until_idle(Duration::from_secs(10));
                Ok(Reply::Done)
            }
            Request::Goodbye => {
                let closed = self.lock().sessions.goodbye(caller.session);
                self.session_ended(caller.session);
                closed.into_iter().for_each(|ino| self.destroy_if_gone(ino));
                Ok(Reply::Done)
            }
            Request::TestLock { ino, owner, lock } => Ok(self.test_lock(caller, ino, owner, &lock)),
            Request::SetLock { ino, owner, lock, wait_ms } => {
                self.set_lock(caller, ino, owner, &lock, wait_ms)
            }
            Request::ReleaseLocks { ino, owner } => Ok(self.release_locks(caller, ino, owner)),
            Request::ReclaimLocks { locks } => self.reclaim_locks(caller, &locks),
            Request::ReserveEnd { ino, size, len } => self.reserve_end(caller, ino, size, len),
            Request::Ping => Ok(Reply::Done),
            _ => Err(Errno::NOTSUP),
        }
    }

    /// Adds the attributes that the folder has after a change in it, if it is still there.
    fn with_parent(&self, reply: Reply, parent: u64) -> Reply {
        match (reply, self.lock().tree.get(parent).map(|inode| inode.attr(parent))) {
            (Reply::Inode(inode), Some(parent)) => Reply::Made { inode, parent },
            (Reply::Done, Some(parent)) => Reply::Removed { parent },
            (reply, _) => reply,
        }
    }

    fn create(
        &self,
        caller: Caller,
        parent: u64,
        name: &[u8],
        mode: u32,
        creator: Creator,
    ) -> Result<Reply, Errno> {
        let new = NewInode {
            kind: FileKind::Regular,
            mode,
            rdev: 0,
            target: b"",
            creator,
            // With one fragment the object itself tells size and time at any moment.
            live: !self.measures_itself(),
        };
        {
            let mut state = self.lock();
            if !state.sessions.has_room(caller.session) {
                return Err(Errno::NFILE);
            }
            state.hold(caller.session)?;
        }
        let reply = self.make(caller, parent, name, &new)?;
        if let Reply::Inode(InodeReply { attr, .. }) = &reply {
            self.lock().sessions.open_by(caller.session, caller.id, attr.ino, true);
        }
        Ok(reply)
    }

    fn make(&self, caller: Caller, parent: u64, name: &[u8], new: &NewInode<'_>) -> Result<Reply, Errno> {
        self.changing(caller, |state, time| {
            let (ino, record) = names::make(&state.tree, parent, name, new, time)?;
            Ok((record, Outcome::Inode(ino)))
        })
    }

    fn unlink(&self, caller: Caller, parent: u64, name: &[u8]) -> Result<Reply, Errno> {
        let mut gone = None;
        let reply = self.changing(caller, |state, time| {
            let (ino, record) = names::unlink(&state.tree, parent, name, time)?;
            gone = Some(ino);
            Ok((record, Outcome::Done))
        })?;
        gone.into_iter().for_each(|ino| self.destroy_if_gone(ino));
        Ok(reply)
    }

    fn rename(&self, caller: Caller, rename: &names::Move<'_>) -> Result<Reply, Errno> {
        let mut replaced = None;
        let mut same = false;
        let reply = self.changing(caller, |state, time| match names::rename(&state.tree, rename, time)? {
            Some((target, record)) => {
                replaced = target;
                Ok((record, Outcome::Done))
            }
            None => {
                same = true;
                Err(Errno::EXIST)
            }
        });
        if same && rename.mode != RenameMode::NoReplace {
            return Ok(Reply::Done);
        }
        replaced.into_iter().for_each(|ino| self.destroy_if_gone(ino));
        reply
    }

    fn read_dir(&self, ino: u64, cookie: u64) -> Result<Reply, Errno> {
        let state = self.lock();
        let (_, entries) = names::directory(&state.tree, ino)?;
        let (mut page, mut live, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (cookie, name, ino) in entries.after(cookie) {
            bytes += name.len();
            if page.len() == PAGE_ENTRIES_MAX || bytes > PAGE_NAME_BYTES_MAX {
                break;
            }
            let reply = self.inode(&state, ino)?;
            page.push(DirEntry { cookie, name: name.to_vec(), attr: reply.attr });
            live.push(reply.live);
        }
        Ok(Reply::Entries { entries: page, live })
    }

    /// Runs one change: unless the request was done before, `decide` checks it and gives the record.
    fn changing(
        &self,
        caller: Caller,
        decide: impl FnOnce(&State, Time) -> Result<(Record, Outcome), Errno>,
    ) -> Result<Reply, Errno> {
        let mut state = self.lock();
        let outcome = match state.sessions.answered(caller.session, caller.id) {
            Some(outcome) => outcome,
            None => {
                let (record, outcome) = decide(&state, now())?;
                state.commit(caller, record, outcome)?;
                outcome
            }
        };
        match outcome {
            Outcome::Done => Ok(Reply::Done),
            Outcome::Inode(ino) => self.inode_reply(&state, ino),
            Outcome::Offset(offset) => Ok(Reply::Offset(offset)),
        }
    }

    fn inode_reply(&self, state: &State, ino: u64) -> Result<Reply, Errno> {
        Ok(Reply::Inode(self.inode(state, ino)?))
    }

    /// An inode as it is now: with one fragment the object has the size, the times and the space.
    fn inode(&self, state: &State, ino: u64) -> Result<InodeReply, Errno> {
        let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
        let mut attr = inode.attr(ino);
        if inode.kind == FileKind::Regular && self.measures_itself() {
            attr.blocks = 0;
            if let Some(object) = self.objects.measure(ino).map_err(|e| errno_of(&e))? {
                (attr.size, attr.blocks, attr.mtime) = (object.size, object.blocks, object.mtime);
                attr.ctime = attr.ctime.max(object.ctime);
            }
        }
        Ok(InodeReply { attr, live: inode.live, epoch: inode.epoch, times: inode.times })
    }

    /// Whether this node's object is the whole file, always.
    fn measures_itself(&self) -> bool {
        self.layout.fragments == 1
    }

    fn sync(&self) -> Result<Reply, Errno> {
        let prepared = self.lock().log.to_sync().map_err(|e| errno_of(&e))?;
        if let Some((file, length)) = prepared {
            // The lock is not held: other requests go on while the disk works.
            let result = file.sync_data();
            let mut state = self.lock();
            state.log.synced(length, &result);
            result.map_err(|e| errno_of(&e))?;
            // For whoever finds damage: before this it is none that a power loss can do. Not needed for the answer.
            let _noted = state.record(None, Record::Synced { length });
        }
        Ok(Reply::Done)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the shard's lock")
    }
}

impl State {
    /// Before a session holds anything: after a restart the shard waits for it.
    fn hold(&mut self, session: [u8; 16]) -> Result<(), Errno> {
        if !self.sessions.is_noted(session) {
            self.record(None, Record::Began { session })?;
            self.sessions.note(session);
        }
        Ok(())
    }

    /// Logs, applies and remembers one change.
    fn commit(&mut self, caller: Caller, record: Record, outcome: Outcome) -> Result<(), Errno> {
        let origin = Origin { session: caller.session, id: caller.id };
        self.record(Some(origin), record)?;
        self.sessions.answer(caller.session, caller.id, outcome);
        Ok(())
    }

    fn record(&mut self, origin: Option<Origin>, record: Record) -> Result<(), Errno> {
        let entry = Entry { origin, record };
        self.log.append(&entry).map_err(|error| {
            tracing::error!(path = %self.log.path().display(), %error, "cannot append to the metadata log");
            errno_of(&error)
        })?;
        self.tree.apply(&entry.record);
        keep_ends(&mut self.ends, &entry.record);
        if self.log.len() > COMPACT_BYTES_MIN
            && self.log.len() > 8 * snapshot_bytes(&self.tree)
            && let Err(error) = self.compact()
        {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot write the metadata log anew");
        }
        Ok(())
    }

    /// Writes the log anew with only what the tree is now.
    fn compact(&mut self) -> Result<(), LogError> {
        let snapshot = self.tree.snapshot().map(|record| Entry { origin: None, record });
        let answers = self.sessions.answers().map(|(session, id, outcome)| Entry {
            origin: Some(Origin { session, id }),
            record: match outcome {
                Outcome::Done => Record::Answered { ino: None },
                Outcome::Inode(ino) => Record::Answered { ino: Some(ino) },
                Outcome::Offset(offset) => Record::Placed { offset },
            },
        });
        let noted = self.sessions.noted().map(|session| Record::Began { session });
        let reserved = self.ends.iter().map(|(&ino, &end)| Record::Reserved { ino, offset: end, end });
        let rest = noted.chain(reserved).map(|record| Entry { origin: None, record });
        self.log = Log::create(self.log.path(), snapshot.chain(answers).chain(rest))?;
        Ok(())
    }
}

fn create(log_path: &Path, spec: &NamespaceSpec) -> Result<State, LogError> {
    let time = now();
    let root = InodeRecord {
        kind: Kind::Directory,
        mode: spec.mode & 0o7777,
        nlink: 2,
        uid: spec.owner.uid,
        gid: spec.owner.gid,
        rdev: 0,
        size: 0,
        live: false,
        atime: time,
        mtime: time,
        ctime: time,
        target: Vec::new(),
        parent: ROOT,
        next_cookie: 1,
        xattrs: Vec::new(),
    };
    let tree = Tree::new(root);
    let log = Log::create(log_path, tree.snapshot().map(|record| Entry { origin: None, record }))?;
    Ok(State { tree, log, sessions: Sessions::default(), locks: Locks::default(), ends: HashMap::new() })
}

fn recover(log_path: &Path) -> Result<State, LogError> {
    let (mut tree, mut sessions, mut ends) = (Tree::empty(), Sessions::default(), HashMap::new());
    let log = Log::open(log_path, |entry| {
        tree.apply(&entry.record);
        keep_ends(&mut ends, &entry.record);
        match entry.record {
            Record::Began { session } => sessions.note(session),
            Record::Ended { session } => sessions.forget(session),
            _ => {}
        }
        if let Some(origin) = entry.origin {
            sessions.answer(origin.session, origin.id, outcome_of(&entry.record));
        }
    })?;
    sessions.all_lost(Instant::now());
    tracing::info!(path = %log_path.display(), inodes = tree.len(), bytes = log.len(), "recovered the namespace");
    Ok(State { tree, log, sessions, locks: Locks::default(), ends })
}

/// What a change does to the places that appends were given.
fn keep_ends(ends: &mut HashMap<u64, u64>, record: &Record) {
    match record {
        Record::Reserved { ino, end, .. } if *end > 0 => {
            ends.insert(*ino, *end);
        }
        Record::SetAttr { change: AttrChange { size: None, .. }, .. } => {}
        Record::Reserved { ino, .. }
        | Record::SetAttr { ino, .. }
        | Record::Settled { ino, .. }
        | Record::Destroyed { ino } => {
            ends.remove(ino);
        }
        _ => {}
    }
}

/// How the request ended that made this record.
fn outcome_of(record: &Record) -> Outcome {
    match record {
        Record::Make { ino, .. } | Record::Link { ino, .. } | Record::SetAttr { ino, .. } => {
            Outcome::Inode(*ino)
        }
        Record::Answered { ino: Some(ino) } => Outcome::Inode(*ino),
        Record::Reserved { offset, .. } | Record::Placed { offset } => Outcome::Offset(*offset),
        _ => Outcome::Done,
    }
}

fn snapshot_bytes(tree: &Tree) -> u64 {
    (tree.len() as u64 + 1) * SNAPSHOT_BYTES_PER_INODE
}

/// The time now, by this node's clock.
fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Time { seconds: time.tv_sec, nanos: u32::try_from(time.tv_nsec).unwrap_or(0) }
}

/// The errno behind an I/O error; EIO where there is none.
pub(crate) fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

impl Inode {
    /// Set-user-id and set-group-id cleared as a write by an unprivileged user clears them: set-group-id only counts as
    /// such together with group execution.
    fn mode_without_privileges(&self) -> u32 {
        let set_gid = if self.mode & 0o010 != 0 { 0o2000 } else { 0 };
        self.mode & !(0o4000 | set_gid)
    }
}

#[cfg(test)]
mod tests;
