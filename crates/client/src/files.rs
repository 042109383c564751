//! The files that this client has open, and what it wrote into each: what the home shard is told when they are closed,
//! and again after it was restarted.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use model::Ino;
use rustix::io::Errno;
use wire::data::credential::Grant;
use wire::data::message::{ClosedHandle, InodeReply, NO_EPOCH, Written};
use wire::data::{FileLock, LockKind, Reply, Request, SetAttr, Time};

use super::coverage::Coverage;

/// Every open file by its inode.
#[derive(Debug, Default)]
pub struct Files {
    files: HashMap<Ino, File>,
    /// By inode and owner.
    locks: HashMap<(Ino, u64), Vec<FileLock>>,
    /// Handles that are closed, but not for the home shard; as (inode, write).
    held: Vec<(Ino, bool)>,
    /// Those of the files that are no more.
    gone: HashSet<Ino>,
    /// The life of the connections to the home shard that began by telling it all this.
    told: u64,
}

/// What a client holds at the home shard; told to one that was restarted, or by a client that goes on for another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// (inode, readers, writers).
    pub opens: Vec<(Ino, u32, u32)>,
    /// (inode, owner, lock).
    pub locks: Vec<(Ino, u64, FileLock)>,
}

/// What gave a file its time of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastChange {
    /// It was set, after any write of this client.
    Set,
    /// A write of this client, after it was set.
    Written,
    /// This client does not know.
    Unknown,
}

#[derive(Clone, Debug, Default)]
struct File {
    readers: u32,
    writers: u32,
    /// Permission bits, as far as we know.
    mode: u32,
    /// The file's epoch that `end` belongs to.
    epoch: u64,
    /// Count of times that were set, that `mtime` came after.
    times: u64,
    /// End of the furthest write since then; `None`: nothing written.
    end: Option<u64>,
    /// Whether that leaves a hole.
    coverage: Coverage,
    /// Storage nodes' time of the last write, or the time that was set since.
    mtime: Time,
    /// The time was set after the last write: the objects' own times say less.
    mtime_set: bool,
    /// What this client may do with the file's objects, where it works for a user: to read, and to write.
    grants: [Option<Grant>; 2],
}

impl Files {
    /// What another client of the session held. What that wrote is not known; the shard measures such files.
    pub fn holding(held: Held) -> Files {
        let file = |(ino, readers, writers)| (ino, File { readers, writers, ..File::default() });
        let mut files = Files { files: held.opens.into_iter().map(file).collect(), ..Files::default() };
        held.locks.iter().for_each(|(ino, owner, lock)| files.locked(*ino, *owner, lock));
        files
    }

    /// Whether the answer to `request` changes what is open or locked.
    pub fn concern(request: &Request) -> bool {
        match request {
            Request::Open { .. } | Request::Create { .. } | Request::Close { .. } => true,
            // What is given up is noted before the shard is asked: it may have given it to another already.
            Request::SetLock { lock, .. } => lock.kind != LockKind::Unlock,
            _ => false,
        }
    }

    /// Notes an answer that came in a life of the connections. `false`: the home shard was told since what is held,
    /// without this, so that the answer is void.
    #[must_use]
    pub fn answered(&mut self, life: u64, request: &Request, reply: &Reply) -> bool {
        if life < self.told {
            return false;
        }
        match (request, reply) {
            (Request::Open { write, .. }, Reply::Inode(inode)) => self.opened(*write, inode),
            (Request::Create { .. }, Reply::Made { inode, .. } | Reply::Inode(inode)) => {
                self.opened(true, inode);
            }
            (Request::Open { .. } | Request::Create { .. }, Reply::Granted { grant, inode, .. }) => {
                let write = !matches!(request, Request::Open { write: false, .. });
                self.opened(write, inode);
                self.granted(inode.attr.ino, *grant);
            }
            (Request::SetLock { ino, owner, lock, .. }, Reply::Done) => self.locked(*ino, *owner, lock),
            (Request::Close { handles }, Reply::Done | Reply::Measure(_)) => {
                handles.iter().for_each(|handle| self.closed(handle.ino, handle.write));
            }
            _ => {}
        }
        true
    }

    /// What to say to a home shard that was restarted. Whatever it answered in former lives is void from now on, unless
    /// it is part of that.
    pub fn tell(&mut self, life: u64) -> Held {
        self.told = life;
        self.held()
    }

    /// A handle was opened.
    fn opened(&mut self, write: bool, inode: &InodeReply) {
        let ino = inode.attr.ino;
        let file = self.files.entry(ino).or_insert_with(|| File { times: inode.times, ..File::default() });
        file.mode = inode.attr.mode;
        // Nothing that was written before is still to be told of.
        if file.writers == 0 {
            (file.coverage, file.epoch) = (Coverage::dense(inode.attr.size), inode.epoch);
        }
        *(if write { &mut file.writers } else { &mut file.readers }) += 1;
    }

    fn granted(&mut self, ino: Ino, grant: Grant) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let [read, write] = &mut file.grants;
        *read = Some(grant).filter(|grant| grant.read).or(*read);
        *write = Some(grant).filter(|grant| grant.write).or(*write);
    }

    /// What lets this client read, or write, the objects of a file that it has open.
    pub(crate) fn grant(&self, ino: Ino, write: bool) -> Option<Grant> {
        self.files.get(&ino)?.grants[usize::from(write)]
    }

    /// The home shard has removed these files, though they are open.
    pub fn are_gone(&mut self, inos: impl IntoIterator<Item = Ino>) {
        self.gone.extend(inos);
    }

    /// ESTALE of a file that is no more: what is read of it, or written to it, is nobody's.
    pub fn exists(&self, ino: Ino) -> Result<(), Errno> {
        if self.gone.contains(&ino) { Err(Errno::STALE) } else { Ok(()) }
    }

    /// A handle was closed; the home shard is told later. How many are held now.
    pub fn hold(&mut self, ino: Ino, write: bool) -> usize {
        self.held.push((ino, write));
        self.held.len()
    }

    /// The same for handles whose close did not reach the home shard: it goes along with a later request.
    pub fn hold_again(&mut self, handles: &[ClosedHandle]) {
        self.held.extend(handles.iter().map(|handle| (handle.ino, handle.write)));
    }

    /// Takes a handle back that is closed but not for the home shard; the file's permission bits.
    pub fn reopen(&mut self, ino: Ino, write: bool) -> Option<u32> {
        let at = self.held.iter().position(|held| *held == (ino, write))?;
        self.held.swap_remove(at);
        self.files.get(&ino).map(|file| file.mode)
    }

    /// Everything that is held, with what is to be said of it.
    pub fn take_held(&mut self) -> Vec<ClosedHandle> {
        let held = std::mem::take(&mut self.held);
        self.closing(held)
    }

    /// What to say when these handles are closed, as (inode, write).
    pub fn closing(&self, handles: Vec<(Ino, bool)>) -> Vec<ClosedHandle> {
        let say =
            |(ino, write)| ClosedHandle { ino, write, written: if write { self.report(ino) } else { None } };
        handles.into_iter().map(say).collect()
    }

    /// The home shard knows that a handle is closed.
    fn closed(&mut self, ino: Ino, write: bool) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let handles = if write { &mut file.writers } else { &mut file.readers };
        *handles = handles.saturating_sub(1);
        if file.writers == 0 {
            file.end = None;
        }
        if (file.readers, file.writers) == (0, 0) {
            self.files.remove(&ino);
            self.gone.remove(&ino);
        }
    }

    /// These bytes were written at `mtime`.
    pub fn written(&mut self, ino: Ino, range: Range<u64>, mtime: Time) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.end = Some(file.end.unwrap_or(0).max(range.end));
            file.coverage.wrote(range);
            file.mtime = if file.mtime_set { mtime } else { file.mtime.max(mtime) };
            file.mtime_set = false;
        }
    }

    /// Which bytes have data is not known any more.
    pub fn lost_track(&mut self, ino: Ino) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.coverage.lost_track();
        }
    }

    /// Attributes were set; the answer was `changed`.
    pub fn attributes_set(&mut self, ino: Ino, set: &SetAttr, changed: &InodeReply) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        file.mode = changed.attr.mode;
        if let Some(size) = set.size {
            (file.end, file.epoch) = (None, changed.epoch);
            file.coverage.resized(size);
        }
        if set.size.is_some() || set.mtime.is_some() {
            (file.mtime, file.mtime_set, file.times) = (changed.attr.mtime, true, changed.times);
        }
    }

    /// What to say when a writer closes. Whoever may leave a hole says so: the size alone would not tell the space
    /// then.
    fn report(&self, ino: Ino) -> Option<Written> {
        let file = self.files.get(&ino)?;
        if file.coverage.may_have_holes() {
            let end = file.end.unwrap_or(0);
            return Some(Written { end, mtime: file.mtime, epoch: NO_EPOCH, times: file.times });
        }
        Some(Written { end: file.end?, mtime: file.mtime, epoch: file.epoch, times: file.times })
    }

    /// What this client did last to the time of change of a file, where it was set `times` times.
    pub fn last_change(&self, ino: Ino, times: u64) -> LastChange {
        match self.files.get(&ino) {
            Some(file) if file.mtime_set => LastChange::Set,
            Some(file) if file.end.is_some() && file.times == times => LastChange::Written,
            _ => LastChange::Unknown,
        }
    }

    /// A lock was taken or given up.
    pub fn locked(&mut self, ino: Ino, owner: u64, lock: &FileLock) {
        let granted = self.locks.entry((ino, owner)).or_default();
        *granted = granted.iter().flat_map(|old| old.outside(lock)).collect();
        if lock.kind != LockKind::Unlock {
            granted.push(*lock);
        }
        if granted.is_empty() {
            self.locks.remove(&(ino, owner));
        }
    }

    /// An owner's range locks on a file were given up.
    pub fn unlocked(&mut self, ino: Ino, owner: u64) {
        if let Some(granted) = self.locks.get_mut(&(ino, owner)) {
            granted.retain(|lock| lock.whole_file);
            if granted.is_empty() {
                self.locks.remove(&(ino, owner));
            }
        }
    }

    /// Whether the owner may hold a range lock on the file.
    pub fn may_hold(&self, ino: Ino, owner: u64) -> bool {
        self.locks.contains_key(&(ino, owner))
    }

    fn held(&self) -> Held {
        let locks = self
            .locks
            .iter()
            .flat_map(|(&(ino, owner), locks)| locks.iter().map(move |lock| (ino, owner, *lock)));
        Held {
            opens: self.files.iter().map(|(&ino, file)| (ino, file.readers, file.writers)).collect(),
            locks: locks.collect(),
        }
    }
}
