//! Operations on attributes, sizes and extended attributes.

use model::Ino;
use rustix::io::Errno;
use wire::data::message::{FEATURES, XattrMode};
use wire::data::room::ROOM;
use wire::data::{FileKind, NAME_BYTES_MAX, Reply, Request, SetAttr, Time, XATTR_BYTES_MAX};

use super::acl::{self, Acl};
use super::record::{AttrChange, Record};
use super::sessions::Outcome;
use super::tree::Inode;
use super::{Caller, Shard};
use crate::errno::errno_of;

/// All extended attributes of one inode together, bytes: a snapshot keeps them in one log entry.
const XATTRS_BYTES_MAX: usize = 256 << 10;

impl Shard {
    pub(super) fn set_attr(&self, caller: Caller<'_>, ino: Ino, set: &SetAttr) -> Result<Reply, Errno> {
        if let Some(size) = set.size {
            return self.truncate(caller, ino, size, set);
        }
        let reply = self.changing(caller, |state, time| {
            let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
            Ok((Record::SetAttr { ino, change: change(inode, set, time) }, Outcome::Inode(ino)))
        })?;
        if !self.measures_itself() || (set.atime, set.mtime) == (None, None) {
            return Ok(reply);
        }
        // The object's times are the file's: they must say what was asked for, until the next write.
        self.objects.set_times(ino, set.atime, set.mtime).map_err(|e| errno_of(&e))?;
        self.inode_reply(&self.lock(), ino)
    }

    fn truncate(&self, caller: Caller<'_>, ino: Ino, size: u64, set: &SetAttr) -> Result<Reply, Errno> {
        if i64::try_from(size).is_err() {
            return Err(Errno::FBIG);
        }
        let slot = usize::try_from(u64::from(ino) % self.truncating.len() as u64).expect("below 64");
        let _alone = self.truncating[slot].lock().expect("no thread panics while it truncates");
        {
            let mut state = self.lock();
            // Asked again after a lost connection: truncating twice could cut off what was written in between.
            if state.sessions.answered(caller.session, caller.id).is_some() {
                return self.inode_reply(&state, ino);
            }
            let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
            match inode.kind {
                FileKind::Regular => {}
                FileKind::Directory => return Err(Errno::ISDIR),
                _ => return Err(Errno::INVAL),
            }
            // From here on only the fragments know its size: some of them may fail, or it may end in a hole.
            if !inode.live && inode.size != size && !self.measures_itself() {
                state.record(None, Record::Opened { ino })?;
            }
            // Before a fragment is told, which may lose it.
            state.followed.cut(ino);
        }
        // Fragments first: after a crash in between the client, which had no answer, asks again.
        for fragment in self.layout.fragments_of(ino) {
            let object_size = self.layout.object_size(ino, fragment, size).unwrap_or(0);
            if self.peers.is_self(fragment) {
                self.objects.resize(ino, object_size).map_err(|e| errno_of(&e))?;
            } else {
                self.peers.resize(fragment, ino, object_size)?;
            }
        }
        self.changing(caller, |state, time| {
            let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
            let mut change = change(inode, set, time);
            change.mtime = change.mtime.or(Some(time));
            Ok((Record::SetAttr { ino, change }, Outcome::Inode(ino)))
        })
    }

    pub(super) fn xattr(&self, caller: Caller<'_>, request: Request) -> Result<Reply, Errno> {
        match request {
            // What only the kernel or a security module would understand is nothing to be kept silently.
            Request::GetXattr { name, .. }
            | Request::SetXattr { name, .. }
            | Request::RemoveXattr { name, .. }
                if name.starts_with(b"system.") && !acl::is_list(&name) =>
            {
                Err(Errno::OPNOTSUPP)
            }
            Request::GetXattr { ino: FEATURES, name } if name == ROOM => {
                Ok(Reply::Bytes(self.lock().room.tell().to_bytes()))
            }
            Request::GetXattr { ino, name } => {
                let state = self.lock();
                let value = state.tree.get(ino).ok_or(Errno::STALE)?.xattr(&name);
                value.map(|value| Reply::Bytes(value.to_vec())).ok_or(Errno::NODATA)
            }
            Request::ListXattr { ino } => {
                let state = self.lock();
                let xattrs = &state.tree.get(ino).ok_or(Errno::STALE)?.xattrs;
                Ok(Reply::Names(xattrs.iter().flat_map(|xattrs| xattrs.keys().cloned()).collect()))
            }
            Request::SetXattr { ino, name, value, mode } => self.changing(caller, |state, time| {
                let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
                may_set(inode, &name, &value, mode)?;
                let record = match name.as_slice() {
                    acl::ACCESS => set_acl(ino, inode, value, mode, time)?,
                    _ => Record::SetXattr { ino, name, value, time },
                };
                Ok((record, Outcome::Done))
            }),
            Request::RemoveXattr { ino, name } => self.changing(caller, |state, time| {
                let inode = state.tree.get(ino).ok_or(Errno::STALE)?;
                inode.xattr(&name).ok_or(Errno::NODATA)?;
                Ok((Record::RemoveXattr { ino, name, time }, Outcome::Done))
            }),
            _ => Err(Errno::NOTSUP),
        }
    }

    /// The size that the last writer measured on the fragments.
    pub(super) fn settle(&self, ino: Ino, size: u64, mtime: Time, epoch: u64) -> Result<Reply, Errno> {
        if i64::try_from(size).is_err() {
            return Err(Errno::FBIG);
        }
        let mut state = self.lock();
        let Some(inode) = state.tree.get(ino) else { return Ok(Reply::Done) };
        // Somebody truncated or opened it meanwhile, or may have it open since before a restart: the measure is of no
        // use, and it stays live.
        if inode.live && inode.epoch == epoch && !state.sessions.may_be_written(ino) {
            let mtime = inode.attr(ino).changed(inode.times, mtime);
            state.record(None, Record::Settled { ino, size, mtime })?;
        }
        Ok(Reply::Done)
    }
}

fn may_set(inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result<(), Errno> {
    let xattrs = inode.xattrs.as_ref();
    let exists = inode.xattr(name).is_some();
    let others = xattrs.into_iter().flatten().filter(|(other, _)| other.as_slice() != name);
    let others: usize = others.map(|(name, value)| name.len() + value.len()).sum();
    match mode {
        XattrMode::Create if exists => Err(Errno::EXIST),
        XattrMode::Replace if !exists => Err(Errno::NODATA),
        _ if name.is_empty() || name.len() > NAME_BYTES_MAX => Err(Errno::RANGE),
        _ if value.len() > XATTR_BYTES_MAX => Err(Errno::TOOBIG),
        _ if others + name.len() + value.len() > XATTRS_BYTES_MAX => Err(Errno::NOSPC),
        _ => acl::check(name, value, inode.kind),
    }
}

fn set_acl(ino: Ino, inode: &Inode, value: Vec<u8>, set: XattrMode, time: Time) -> Result<Record, Errno> {
    let acl = Acl::parse(&value)?;
    let kept = if set == XattrMode::DropSetGid { 0o5000 } else { 0o7000 };
    let mode = inode.mode & kept | acl.mode();
    Ok(Record::SetAcl { ino, mode, value: (!acl.is_minimal()).then_some(value), time })
}

fn change(inode: &Inode, set: &SetAttr, time: Time) -> AttrChange {
    let chown = (set.uid, set.gid) != (None, None) && inode.kind != FileKind::Directory;
    let mode = match set.mode {
        Some(mode) => Some(mode & 0o7777),
        None if set.drop_privileges || chown => Some(inode.mode_without_privileges()),
        None => None,
    };
    AttrChange {
        mode: mode.filter(|mode| *mode != inode.mode),
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        atime: set.atime,
        mtime: set.mtime,
        ctime: time,
    }
}

impl Inode {
    /// Set-user-id and set-group-id cleared as a write by an unprivileged user clears them: set-group-id only counts as
    /// such together with group execution.
    pub(super) fn mode_without_privileges(&self) -> u32 {
        let set_gid = if self.mode & 0o010 != 0 { 0o2000 } else { 0 };
        self.mode & !(0o4000 | set_gid)
    }
}
