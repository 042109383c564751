//! Opening and closing: who may be writing, and what size a file has when nobody does any more.

use std::collections::HashSet;

use model::{Ino, SessionId};
use rustix::io::Errno;
use wire::data::credential::User;
use wire::data::message::{ClosedHandle, InodeReply};
use wire::data::{Creator, FileKind, Reply, Request};

use super::caller::Asked;
use super::names::NewInode;
use super::record::Record;
use super::sessions::{Closed, OpenFile, Outcome, Report};
use super::state::State;
use super::{Caller, Shard, access, making};

/// Of no client: theirs are drawn at random. It has nothing open.
const NO_SESSION: SessionId = SessionId([0; 16]);

impl Shard {
    /// Whether the caller may do what it asks for. One that asks again for what was done is told how that ended.
    /// Changes are checked once more where they are made: this is only the moment before.
    pub(super) fn permits(&self, caller: Caller<'_>) -> Result<(), Errno> {
        if !caller.is_checked() {
            return Ok(());
        }
        let state = self.lock();
        match state.sessions.answered(caller.session, caller.id) {
            Some(_) => Ok(()),
            None => access::check(&caller, &state.tree, &state.sessions),
        }
    }

    /// Whether a caller who has opened a file to write may read it, too.
    pub fn may_read(&self, caller: Caller<'_>, ino: Ino) -> bool {
        let request = Request::Open { ino, write: false };
        let state = self.lock();
        access::check(&caller.asking(&request), &state.tree, &state.sessions).is_ok()
    }

    /// Whether nobody may do what is asked, whatever others have open.
    ///
    /// # Errors
    /// As [`access::check`].
    pub fn may_nobody(&self, request: &Request) -> Result<(), Errno> {
        let asked = Asked { user: &User::nobody(), request };
        let state = self.lock();
        access::check(&Caller::of_user(NO_SESSION, 0, asked), &state.tree, &state.sessions)
    }

    pub(super) fn create(
        &self,
        caller: Caller<'_>,
        parent: Ino,
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
        let mut state = self.lock_with_number()?;
        if !state.sessions.has_room(caller.session) {
            return Err(Errno::NFILE);
        }
        state.hold(caller.session)?;
        if let Some(Outcome::Inode(ino)) = state.sessions.answered(caller.session, caller.id) {
            return self.count_open(&mut state, caller, ino, true);
        }
        let reply = self.change(&mut state, caller, making(parent, name, &new))?;
        // Under the same lock: somebody may take the name away at once, and what nobody has open is destroyed.
        if let Reply::Inode(InodeReply { attr, .. }) = &reply {
            state.sessions.open_by(caller.session, caller.id, attr.ino, true);
        }
        Ok(reply)
    }

    pub(super) fn open_file(&self, caller: Caller<'_>, ino: Ino, write: bool) -> Result<Reply, Errno> {
        let mut state = self.lock();
        if state.sessions.answered(caller.session, caller.id).is_some() {
            return self.inode_reply(&state, ino);
        }
        if state.tree.get(ino).ok_or(Errno::STALE)?.kind != FileKind::Regular {
            return Err(Errno::INVAL);
        }
        if !state.sessions.has_room(caller.session) {
            return Err(Errno::NFILE);
        }
        state.hold(caller.session)?;
        let reply = self.count_open(&mut state, caller, ino, write)?;
        state.sessions.answer_handles(caller.session, caller.id, Outcome::Inode(ino));
        Ok(reply)
    }

    /// Counts the handle that a request opens on a file that was there before; asked again, once.
    pub(super) fn count_open(
        &self,
        state: &mut State,
        caller: Caller<'_>,
        ino: Ino,
        write: bool,
    ) -> Result<Reply, Errno> {
        let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
        // Its last name went between lookup and open, and with it the file; where somebody has it open, it lives on.
        if inode.nlink == 0 && !state.sessions.is_open(ino) && !state.sessions.is_awaiting() {
            return Err(Errno::STALE);
        }
        // Live without a writer: one was lost, or left a hole, and the last size that the shard knows may be wrong.
        let left_live = inode.live && !state.sessions.is_written(ino);
        // Also then: what was measured before this writer came is of no use any more.
        if write && (!inode.live || left_live) && !self.measures_itself() {
            state.record(None, Record::Opened { ino })?;
        }
        if write {
            state.writes_to(caller.session, ino)?;
        }
        let reply = self.inode_reply(state, ino)?;
        // Last, so that nothing is counted when the answer is an error.
        state.sessions.open_by(caller.session, caller.id, ino, write);
        if write && left_live {
            state.sessions.size_unknown(ino);
        }
        Ok(reply)
    }

    /// What the session has open is this and no more. Replies what of that is gone, or what its user may not have open
    /// (any more, after a restart of this node).
    pub(super) fn reclaim(&self, caller: Caller<'_>, opens: &[(Ino, u32, u32)]) -> Result<Reply, Errno> {
        let mut state = self.lock();
        // It was ended, and others may have closed and measured meanwhile what it still writes to.
        let was_ended = !state.sessions.is_noted(caller.session);
        if !opens.is_empty() {
            state.hold(caller.session)?;
        }
        if was_ended {
            state.is_back(caller.session, opens)?;
        }
        // Removed, or about to be: the session was away for too long, and nobody else had them open.
        let is_gone = |ino: &Ino| {
            let is_left = state.tree.is_orphan(*ino) && !state.sessions.is_open(*ino);
            state.tree.get(*ino).is_none() || (is_left && !state.sessions.is_awaiting())
        };
        let is_gone = |open: &&(Ino, u32, u32)| {
            is_gone(&open.0) || !access::may_reclaim(&caller, &state.tree, &state.sessions, **open)
        };
        let gone: Vec<Ino> = opens.iter().filter(is_gone).map(|(ino, _, _)| *ino).collect();
        let opens: Vec<_> = opens.iter().copied().filter(|(ino, _, _)| !gone.contains(ino)).collect();
        let unwritten = |ino: &Ino| was_ended && !state.sessions.is_written(*ino);
        let unwritten: HashSet<Ino> = opens.iter().map(|(ino, _, _)| *ino).filter(unwritten).collect();
        for (ino, _, _) in opens.iter().filter(|(_, _, writers)| *writers > 0) {
            state.writes_to(caller.session, *ino)?;
        }
        let before = state.sessions.reclaim(caller.session, &opens);
        for (ino, _, writers) in &opens {
            // A power loss may have taken back that it was opened for writing, and its size with it.
            let is_doubted = state.tree.is_settled(*ino) || unwritten.contains(ino);
            if *writers > 0 && is_doubted && !self.measures_itself() {
                state.doubt(*ino);
            }
        }
        drop(state);
        // A former process may have opened what it did not live to tell of.
        before.into_iter().for_each(|ino| self.destroy_if_gone(ino));
        Ok(if gone.is_empty() { Reply::Done } else { Reply::Gone(gone) })
    }

    /// The sizes of these files, or of all if none is named, are what the fragments have: one of those has lost
    /// something.
    pub(super) fn doubt(&self, inos: &[Ino]) -> Result<Reply, Errno> {
        self.lock().doubt_files(inos).map(|()| Reply::Done)
    }

    pub(super) fn close_files(&self, caller: Caller<'_>, handles: &[ClosedHandle]) -> Result<Reply, Errno> {
        let mut state = self.lock();
        let mut unknown = Vec::new();
        if state.sessions.answered(caller.session, caller.id).is_none() {
            for handle in handles {
                let epoch = self.close_file(&mut state, caller, handle);
                unknown.extend(epoch.map(|epoch| (handle.ino, epoch)));
            }
            state.losses.closes(caller.session);
            state.sessions.answer_handles(caller.session, caller.id, Outcome::Done);
        }
        drop(state);
        handles.iter().for_each(|handle| self.destroy_if_gone(handle.ino));
        Ok(Reply::Measure(unknown))
    }

    /// Notes one handle's end. The file's epoch, if its last writer closed and its size is not known.
    ///
    /// It cannot fail: the handle counts no more, and a close that were refused and asked again would take another
    /// handle of the file along. Where the log takes nothing, the file's size stays what the fragments have.
    fn close_file(&self, state: &mut State, caller: Caller<'_>, handle: &ClosedHandle) -> Option<u64> {
        let ClosedHandle { ino, write, written } = *handle;
        let (epoch, times) = state.tree.get(ino).map_or((0, 0), |inode| (inode.epoch, inode.times));
        let report = match written {
            Some(written) if written.epoch != epoch || i64::try_from(written.end).is_err() => Err(()),
            // The close can arrive after a change of times that the program made after it: that is what stays.
            Some(written) => Ok(Some(Report {
                end: written.end,
                mtime: (written.times == times).then_some(written.mtime),
            })),
            None => Ok(None),
        };
        let closed = state.sessions.close(caller.session, ino, write, report);
        // After a restart others may be in the middle of an append, and not have said yet that they have it open.
        if state.sessions.may_be_written(ino) {
            return None;
        }
        if state.ends.contains_key(&ino) {
            state.nobody_appends(ino);
        }
        match closed {
            Closed::LastWriter(file) if !self.measures_itself() => last_writer_closed(state, ino, &file),
            _ => None,
        }
    }
}

fn last_writer_closed(state: &mut State, ino: Ino, file: &OpenFile) -> Option<u64> {
    let inode = state.tree.get(ino).filter(|inode| inode.nlink > 0)?;
    if file.unknown {
        return Some(inode.epoch);
    }
    let (end, mtime) = file.written.unwrap_or_default();
    let mtime = mtime.map_or(inode.mtime, |written| inode.attr(ino).changed(0, written));
    let size = inode.size.max(end);
    // The log has said already why it does not take it; the file stays one that is measured.
    let _stays_live = state.record(None, Record::Settled { ino, size, mtime });
    None
}
