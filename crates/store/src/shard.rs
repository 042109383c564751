//! The home shard: the metadata of one namespace.
//!
//! A request is checked against the tree in memory, written to the log, applied to the tree, and answered: in this
//! order, under one lock, so that nothing is answered that a `kill -9` could take back. The size of a file that
//! somebody writes is what the fragments have ([`tree::Inode::live`]); when the last writer closes, writers' reports
//! make it the shard's again.

mod access;
mod acl;
pub mod attributes;
pub mod caller;
mod destroy;
mod epochs;
mod followed;
mod following;
mod handles;
mod locking;
mod locks;
pub mod log;
mod losses;
mod names;
mod paths;
pub mod record;
mod removed;
mod room;
pub mod second;
pub mod sessions;
mod settling;
mod state;
pub mod tree;
mod unconfirmed;
mod unsettled;
mod upkeep;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use model::{Ino, stripe::Layout};
use rustix::io::Errno;
use wire::data::message::{InodeReply, RenameMode};
use wire::data::{DirEntry, FileKind, Reply, Request, Time};
use wire::node::NamespaceSpec;

use crate::errno::{errno_of, failed};
use crate::log_folder::Folder;
use crate::objects::Objects;
use crate::peers::Peers;
pub use caller::Caller;
use destroy::Destroyer;
use log::LogError;
use names::NewInode;
use record::Record;
pub use second::Behind;
use second::Second;
use sessions::Outcome;
pub use state::Expect;
use state::State;
use upkeep::Upkeep;

/// Entries in one page of a directory, and bytes of names: a page must fit one message.
const PAGE_ENTRIES_MAX: usize = 512;
const PAGE_NAME_BYTES_MAX: usize = 64 << 10;

/// The metadata of one namespace.
pub struct Shard {
    layout: Layout,
    /// This node's objects: all there is of a file when the instance has one fragment.
    objects: Arc<Objects>,
    peers: Arc<Peers>,
    state: Mutex<State>,
    /// Truncations of one inode are serialised: the fragments must all end at the same size.
    truncating: [Mutex<()>; 64],
    upkeep: Upkeep,
    /// The log's copy on another node, where there is one.
    second: Option<Arc<Second>>,
    destroyer: Destroyer,
    /// Told whenever a lock was given up.
    unlocked: Condvar,
    waking: Arc<AtomicBool>,
}

impl Shard {
    /// Makes the log of a new namespace in the folder at `home`, durably, or confirms the one that is there.
    ///
    /// # Errors
    /// [`LogError`]: what is there stays as it is.
    pub fn begin(home: &Path, spec: &NamespaceSpec) -> Result<(), LogError> {
        State::open(log::folder(home)?, spec, Expect::New).map(drop)
    }

    /// Opens the namespace whose log is in the folder at `home`.
    ///
    /// # Errors
    /// [`LogError`]: nothing is served then.
    pub fn open(
        home: &Path,
        spec: &NamespaceSpec,
        expect: Expect,
        objects: Arc<Objects>,
        peers: Arc<Peers>,
    ) -> Result<Arc<Shard>, LogError> {
        Shard::over(log::folder(home)?, spec, expect, objects, peers)
    }

    fn over(
        home: Arc<dyn Folder>,
        spec: &NamespaceSpec,
        expect: Expect,
        objects: Arc<Objects>,
        peers: Arc<Peers>,
    ) -> Result<Arc<Shard>, LogError> {
        let mut state = State::open(home.clone(), spec, expect)?;
        state.serve_as(peers.own(), objects.verifier());
        state.room.count_in(objects.space().clone(), &state.tree);
        // The one object tells its size by itself.
        if spec.layout.fragments > 1 {
            state.serve_under(objects.verifier());
        }
        let second = peers.copy().map(|place| Second::new(place.clone(), home, &state.log)).transpose()?;
        let waking = state.losses.is_any_waking();
        let shard = Arc::new(Shard {
            layout: spec.layout,
            objects,
            peers,
            state: Mutex::new(state),
            truncating: [const { Mutex::new(()) }; 64],
            upkeep: Upkeep::default(),
            second,
            destroyer: Destroyer::default(),
            unlocked: Condvar::new(),
            waking,
        });
        destroy::start(&shard);
        losses::left::start(&shard);
        second::start(&shard);
        following::start(&shard);
        settling::start(&shard);
        Ok(shard)
    }

    /// Answers one metadata request.
    pub fn handle(&self, caller: Caller<'_>, request: Request) -> Reply {
        let answer = self.permits(caller).and_then(|()| self.answer(caller, request));
        let answer = answer.and_then(|reply| self.wake(caller.session).map(|()| reply));
        answer.unwrap_or_else(failed)
    }

    /// The object of a file that it is the whole of, for the kernel to use without us.
    ///
    /// # Errors
    /// ENOTSUP where the kernel would not keep the capacity.
    pub fn descriptor(&self, ino: Ino) -> std::io::Result<OwnedFd> {
        let inode = self.lock().tree.get(ino).map(|inode| inode.attr(ino)).ok_or(Errno::STALE)?;
        self.objects.descriptor(ino, inode.atime, inode.mtime)
    }

    /// How many inodes the namespace has.
    pub fn inodes(&self) -> u64 {
        self.lock().tree.len() as u64
    }

    /// The other fragments.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// How the log's copy on another node is; `None` where the instance has one node.
    pub fn copy(&self) -> Option<Behind> {
        let second = self.second.as_ref()?;
        let extent = self.lock().log.extent();
        Some(second.behind(&extent))
    }

    /// Control knows of these doubts about the log's copy.
    pub fn hear(&self, doubts: &[u64]) {
        self.second.iter().for_each(|second| second.hear(doubts));
    }

    /// Stops the threads that work for this shard.
    pub fn close(&self) {
        self.destroyer.close();
        self.second.iter().for_each(|second| second.close());
    }

    fn answer(&self, caller: Caller<'_>, request: Request) -> Result<Reply, Errno> {
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
            Request::ReadLink { ino } => self.read_link(caller, ino),
            Request::Losses(asked) => self.asked_of_losses(caller, asked),
            Request::Open { ino, write } => self.open_file(caller, ino, write),
            Request::Close { handles } => self.close_files(caller, &handles),
            Request::Settle { ino, size, mtime, epoch } => self.settle(ino, size, mtime, epoch),
            Request::Reclaim { opens } => self.reclaim(caller, &opens),
            Request::GetXattr { .. }
            | Request::SetXattr { .. }
            | Request::ListXattr { .. }
            | Request::RemoveXattr { .. } => self.xattr(caller, request),
            Request::SyncMetadata => self.sync_log().map_err(|error| errno_of(&error)).map(|()| Reply::Done),
            Request::AwaitDestroyed => {
                self.destroyer.wait_until_idle(Duration::from_secs(10));
                Ok(Reply::Done)
            }
            Request::Goodbye => Ok(self.goodbye(caller)),
            Request::TestLock { ino, owner, lock } => self.test_lock(caller, ino, owner, &lock),
            Request::SetLock { ino, owner, lock, wait_ms } => {
                self.set_lock(caller, ino, owner, &lock, wait_ms)
            }
            Request::ReleaseLocks { ino, owner } => Ok(self.release_locks(caller, ino, owner)),
            Request::ReclaimLocks { locks } => self.reclaim_locks(caller, &locks),
            Request::ReserveEnd { ino, size, len } => self.reserve_end(caller, ino, size, len),
            Request::IsWritten { ino } => Ok(Reply::Truth(self.lock().sessions.may_be_written(ino))),
            Request::Doubt { inos } => self.doubt(&inos),
            Request::ListMeant { fragment, after } => self.list_meant(fragment, after),
            Request::Ping => Ok(Reply::Done),
            _ => Err(Errno::NOTSUP),
        }
    }

    /// Adds the attributes that the folder has after a change in it, if it is still there.
    fn with_parent(&self, reply: Reply, parent: Ino) -> Reply {
        match (reply, self.lock().tree.get(parent).map(|inode| inode.attr(parent))) {
            (Reply::Inode(inode), Some(parent)) => Reply::Made { inode, parent },
            (Reply::Done, Some(parent)) => Reply::Removed { parent },
            (reply, _) => reply,
        }
    }

    fn make(&self, caller: Caller<'_>, parent: Ino, name: &[u8], new: &NewInode<'_>) -> Result<Reply, Errno> {
        self.change(&mut *self.lock_with_number()?, caller, making(parent, name, new))
    }

    /// The state, with a number for a new inode.
    fn lock_with_number(&self) -> Result<MutexGuard<'_, State>, Errno> {
        loop {
            let state = self.lock();
            if state.has_number() {
                return Ok(state);
            }
            drop(state);
            self.reserve_numbers()?;
        }
    }

    fn unlink(&self, caller: Caller<'_>, parent: Ino, name: &[u8]) -> Result<Reply, Errno> {
        let mut gone = None;
        let reply = self.changing(caller, |state, time| {
            let (ino, record) = names::unlink(&state.tree, parent, name, time)?;
            gone = Some(ino);
            Ok((record, Outcome::Done))
        })?;
        gone.into_iter().for_each(|ino| self.destroy_if_gone(ino));
        Ok(reply)
    }

    fn rename(&self, caller: Caller<'_>, rename: &names::Move<'_>) -> Result<Reply, Errno> {
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

    fn read_dir(&self, ino: Ino, cookie: u64) -> Result<Reply, Errno> {
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
            live.push((reply.live, reply.times));
        }
        Ok(Reply::Entries { entries: page, live })
    }

    /// Runs one change: unless the request was done before, `decide` checks it and gives the record.
    fn changing(
        &self,
        caller: Caller<'_>,
        decide: impl FnOnce(&State, Time) -> Result<(Record, Outcome), Errno>,
    ) -> Result<Reply, Errno> {
        self.change(&mut self.lock(), caller, decide)
    }

    fn change(
        &self,
        state: &mut State,
        caller: Caller<'_>,
        decide: impl FnOnce(&State, Time) -> Result<(Record, Outcome), Errno>,
    ) -> Result<Reply, Errno> {
        let outcome = match state.sessions.answered(caller.session, caller.id) {
            Some(outcome) => outcome,
            None => {
                access::check(&caller, &state.tree, &state.sessions)?;
                let (record, outcome) = decide(state, now())?;
                state.commit(caller, record, outcome)?;
                outcome
            }
        };
        match outcome {
            Outcome::Done => Ok(Reply::Done),
            Outcome::Inode(ino) => self.inode_reply(state, ino),
            Outcome::Offset(offset) => Ok(Reply::Offset(offset)),
        }
    }

    fn inode_reply(&self, state: &State, ino: Ino) -> Result<Reply, Errno> {
        Ok(Reply::Inode(self.inode(state, ino)?))
    }

    /// An inode as it is now: with one fragment the object has the size, the times and the space.
    fn inode(&self, state: &State, ino: Ino) -> Result<InodeReply, Errno> {
        let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
        let mut attr = inode.attr(ino);
        if inode.kind == FileKind::Regular && self.measures_itself() {
            attr.blocks = 0;
            if let Some(object) = self.objects.measure(ino).map_err(|e| errno_of(&e))? {
                // An object whose time of change is the recorded one was not written since: its ctime is only when this
                // node made it or set its times, and a caller has seen the inode's already.
                if object.mtime != attr.mtime {
                    attr.ctime = attr.ctime.max(object.ctime);
                }
                (attr.size, attr.blocks, attr.mtime) = (object.size, object.blocks, object.mtime);
            }
        }
        Ok(InodeReply { attr, live: inode.live, epoch: inode.epoch, times: inode.times })
    }

    /// Whether this node's object is the whole file, always.
    pub fn measures_itself(&self) -> bool {
        self.layout.fragments == 1
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the shard's lock")
    }
}

/// The change that makes an inode.
fn making(
    parent: Ino,
    name: &[u8],
    new: &NewInode<'_>,
) -> impl FnOnce(&State, Time) -> Result<(Record, Outcome), Errno> {
    move |state, time| {
        let (ino, record) = names::make(&state.tree, parent, name, new, time)?;
        Ok((record, Outcome::Inode(ino)))
    }
}

/// The time now, by this node's clock.
fn now() -> Time {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    Time { seconds: time.tv_sec, nanos: u32::try_from(time.tv_nsec).unwrap_or(0) }
}

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod power;
#[cfg(test)]
mod tests;
