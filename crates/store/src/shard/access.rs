//! What a client that works for a user may do: the checks that the kernel makes where a mount asks.
//!
//! Modes, access lists, sticky folders and owners are obeyed as POSIX and Linux have it, with one difference: who owns
//! an inode is not refused by its permission bits, as he could change them. An inode can be used that is reached from
//! the root through folders that may be searched, by any of its names, or that the session has open. What a user may do
//! with the objects of files is said by grants ([`wire::data::credential`]).
//!
//! **Invariant:** what is not listed here is refused.

use model::{Ino, SessionId};
use rustix::io::Errno;
use wire::data::credential::User;
use wire::data::message::{FEATURES, RenameMode};
use wire::data::{Creator, FileKind, LockKind, ROOT, Request, SetAttr};

use super::acl::{self, Acl};
use super::caller::{Asked, Caller};
use super::names;
use super::sessions::Sessions;
use super::tree::{Inode, Tree};

/// Permission bits, as in one digit of a mode.
const READ: u32 = 4;
const WRITE: u32 = 2;
const SEARCH: u32 = 1;

/// Of a folder: only owners take names out of it.
const STICKY: u32 = 0o1000;

const SET_GID: u32 = 0o2000;

/// Whether who asks may do what he asks for, as things are now.
///
/// # Errors
/// EACCES and EPERM, as Linux tells them apart; ENOENT and ESTALE where there is nothing.
pub(super) fn check(caller: &Caller<'_>, tree: &Tree, sessions: &Sessions) -> Result<(), Errno> {
    caller.asked.map_or(Ok(()), |asked| permit(tree, sessions, caller.session, asked))
}

fn permit(tree: &Tree, sessions: &Sessions, session: SessionId, asked: Asked<'_>) -> Result<(), Errno> {
    if asked.user.uid == 0 || concerns_nobody_else(asked.request) {
        return Ok(());
    }
    let access = Access { tree, sessions, session, user: asked.user };
    match asked.request {
        Request::Lookup { parent, name } if name == b"." => access.reach(*parent),
        Request::Lookup { parent, .. } => access.search(*parent),
        Request::GetAttr { ino }
        | Request::ReadLink { ino }
        | Request::ListXattr { ino }
        | Request::IsWritten { ino } => access.reach(*ino),
        Request::GetXattr { ino, name } => access.read_xattr(*ino, name),
        Request::SetXattr { ino, name, .. } | Request::RemoveXattr { ino, name } => {
            access.write_xattr(*ino, name)
        }
        Request::ReadDir { ino, .. } => access.search(*ino).and_then(|()| access.need(*ino, READ)),
        Request::SetAttr { ino, set } => access.set_attr(*ino, set),
        Request::Create { parent, creator, .. } => access.make(*parent, FileKind::Regular, creator),
        Request::Make { parent, kind, creator, .. } => access.make(*parent, *kind, creator),
        Request::Link { ino, parent, .. } => access.link(*ino, *parent),
        Request::Unlink { parent, name } | Request::Rmdir { parent, name } => access.remove(*parent, name),
        Request::Rename { parent, name, new_parent, new_name, mode } => {
            access.rename((*parent, name), (*new_parent, new_name), *mode)
        }
        Request::Open { ino, write } => access.open(*ino, *write),
        Request::TestLock { ino, .. } | Request::SetLock { ino, .. } => access.open(*ino, false),
        Request::ReserveEnd { ino, .. } => access.open(*ino, true),
        _ => Err(Errno::PERM),
    }
}

/// Whether a session may have a file open of which it says so, with so many readers and writers: it has, as is still
/// known here, or could open it now.
pub(super) fn may_reclaim(
    caller: &Caller<'_>,
    tree: &Tree,
    sessions: &Sessions,
    (ino, readers, writers): (Ino, u32, u32),
) -> bool {
    let Some(asked) = caller.asked.filter(|asked| asked.user.uid != 0) else { return true };
    let access = Access { tree, sessions, session: caller.session, user: asked.user };
    sessions.has_open(caller.session, ino, (readers, writers))
        || access.reclaim(ino, readers, writers).is_ok()
}

/// Whether it is about what the session holds, or about nothing that is anybody's.
fn concerns_nobody_else(request: &Request) -> bool {
    match request {
        Request::SetLock { lock, .. } => lock.kind == LockKind::Unlock,
        Request::ReclaimLocks { locks } => locks.is_empty(),
        Request::Close { .. }
        | Request::ReleaseLocks { .. }
        | Request::Doubt { .. }
        // What of these a user may not tell is refused there.
        | Request::Losses(_)
        | Request::ReadLink { ino: FEATURES }
        | Request::SyncMetadata
        // What may not be open is taken out: see `may_reclaim`.
        | Request::Reclaim { .. }
        | Request::AwaitDestroyed
        | Request::Goodbye
        | Request::Ping => true,
        _ => false,
    }
}

struct Access<'a> {
    tree: &'a Tree,
    sessions: &'a Sessions,
    session: SessionId,
    user: &'a User,
}

impl Access<'_> {
    /// The inode can be used: it has a name in a folder that can be searched, or the session has it open.
    fn reach(&self, ino: Ino) -> Result<(), Errno> {
        let inode = self.inode(ino)?;
        if ino == ROOT || self.sessions.holds(self.session, ino) {
            return Ok(());
        }
        if inode.nlink == 0 {
            return Err(Errno::STALE);
        }
        let known = inode.folder();
        let by_known = known.map_or(Err(Errno::ACCESS), |folder| self.search(folder));
        if by_known.is_ok() || (known.is_some() && inode.nlink == 1) || inode.kind == FileKind::Directory {
            return by_known;
        }
        // Seldom: it has several names, and the one that is remembered does not lead there, or was taken away.
        let mut folders = self.tree.folders_of(ino).into_iter();
        if folders.any(|folder| self.search(folder).is_ok()) { Ok(()) } else { Err(Errno::ACCESS) }
    }

    /// Names in the folder can be used: it and all folders above it can be searched.
    fn search(&self, folder: Ino) -> Result<(), Errno> {
        let mut at = folder;
        loop {
            let (inode, directory) = names::directory(self.tree, at)?;
            self.check(inode, SEARCH)?;
            if at == ROOT {
                return Ok(());
            }
            // One that was removed hangs nowhere any more; whoever has it may go on with it.
            at = directory.parent;
        }
    }

    fn need(&self, ino: Ino, wanted: u32) -> Result<(), Errno> {
        self.check(self.inode(ino)?, wanted)
    }

    /// POSIX 1003.1e, 23.1.5: owner, then named users, groups, and others.
    fn check(&self, inode: &Inode, wanted: u32) -> Result<(), Errno> {
        if inode.uid == self.user.uid {
            return Ok(());
        }
        let list = inode.xattr(acl::ACCESS).and_then(|value| Acl::parse(value).ok());
        let given = match list {
            Some(list) => list.permits(self.user, inode.gid, wanted),
            None if self.user.is_in(inode.gid) => inode.mode >> 3 & wanted == wanted,
            None => inode.mode & wanted == wanted,
        };
        if given { Ok(()) } else { Err(Errno::ACCESS) }
    }

    fn open(&self, ino: Ino, write: bool) -> Result<(), Errno> {
        self.reach(ino)?;
        self.need(ino, if write { WRITE } else { READ })
    }

    /// What is claimed to be open must be what could be opened; of what has no name any more, only what is one's own.
    fn reclaim(&self, ino: Ino, readers: u32, writers: u32) -> Result<(), Errno> {
        let Some(inode) = self.tree.get(ino) else { return Ok(()) };
        if inode.uid == self.user.uid {
            return Ok(());
        }
        self.reach(ino)?;
        let wanted = if readers > 0 { READ } else { 0 } | if writers > 0 { WRITE } else { 0 };
        self.check(inode, wanted)
    }

    fn owns(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.reach(ino)?;
        let inode = self.inode(ino)?;
        if inode.uid == self.user.uid { Ok(inode) } else { Err(Errno::PERM) }
    }

    /// Names in the folder can be changed.
    fn change(&self, folder: Ino) -> Result<(), Errno> {
        self.search(folder).and_then(|()| self.need(folder, WRITE))
    }

    fn make(&self, parent: Ino, kind: FileKind, creator: &Creator) -> Result<(), Errno> {
        self.change(parent)?;
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let is_his = creator.uid == self.user.uid && self.user.is_in(creator.gid);
        if is_device || !is_his { Err(Errno::PERM) } else { Ok(()) }
    }

    /// As with Linux's `protected_hardlinks`: nobody keeps what is another's from being removed.
    fn link(&self, ino: Ino, parent: Ino) -> Result<(), Errno> {
        self.change(parent)?;
        if self.owns(ino).is_ok() {
            return Ok(());
        }
        let is_safe = self.inode(ino)?.kind == FileKind::Regular;
        if is_safe && self.open(ino, true).is_ok() && self.open(ino, false).is_ok() {
            return Ok(());
        }
        Err(Errno::PERM)
    }

    fn remove(&self, parent: Ino, name: &[u8]) -> Result<(), Errno> {
        self.change(parent)?;
        match names::lookup(self.tree, parent, name) {
            Ok(ino) => self.take_out_of(parent, ino),
            // What is wrong with the name is said by who removes it.
            Err(_) => Ok(()),
        }
    }

    /// The names of an inode in a sticky folder are its owner's and the folder's.
    fn take_out_of(&self, parent: Ino, ino: Ino) -> Result<(), Errno> {
        let (folder, inode) = (self.inode(parent)?, self.inode(ino)?);
        let is_his = [folder.uid, inode.uid].contains(&self.user.uid);
        if folder.mode & STICKY == 0 || is_his { Ok(()) } else { Err(Errno::PERM) }
    }

    fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), mode: RenameMode) -> Result<(), Errno> {
        self.remove(from.0, from.1)?;
        self.remove(to.0, to.1)?;
        let is_other = from.0 != to.0;
        let mut moved = vec![names::lookup(self.tree, from.0, from.1)];
        if mode == RenameMode::Exchange {
            moved.push(names::lookup(self.tree, to.0, to.1));
        }
        for ino in moved.into_iter().flatten() {
            // Its `..` changes.
            if is_other && self.inode(ino)?.kind == FileKind::Directory {
                self.need(ino, WRITE)?;
            }
        }
        Ok(())
    }

    fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result<(), Errno> {
        self.reach(ino)?;
        let inode = self.inode(ino)?;
        let is_owner = inode.uid == self.user.uid;
        if set.size.is_some() && !is_owner && !self.sessions.writes(self.session, ino) {
            self.check(inode, WRITE)?;
        }
        if set.drop_privileges && !is_owner {
            self.check(inode, WRITE)?;
        }
        let times = set.atime.is_some() || set.mtime.is_some();
        let changes_owner = set.uid.is_some_and(|uid| uid != inode.uid);
        let changes_group = set.gid.is_some_and(|gid| gid != inode.gid);
        if !is_owner && (times || set.mode.is_some() || changes_owner || changes_group) {
            return Err(Errno::PERM);
        }
        let joins = set.gid.filter(|_| changes_group);
        if changes_owner || joins.is_some_and(|gid| !self.user.is_in(gid)) {
            return Err(Errno::PERM);
        }
        // The kernel would clear it silently; here the caller is ours, and asks for nothing that he may not have.
        let group = set.gid.unwrap_or(inode.gid);
        let sets_gid = set.mode.is_some_and(|mode| mode & SET_GID != 0) && inode.kind != FileKind::Directory;
        if sets_gid && !self.user.is_in(group) { Err(Errno::PERM) } else { Ok(()) }
    }

    fn read_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        self.reach(ino)?;
        match name {
            name if acl::is_list(name) => Ok(()),
            name if name.starts_with(b"user.") => self.need(ino, READ),
            _ => Err(Errno::PERM),
        }
    }

    fn write_xattr(&self, ino: Ino, name: &[u8]) -> Result<(), Errno> {
        match name {
            name if acl::is_list(name) => self.owns(ino).map(drop),
            name if name.starts_with(b"user.") => self.open(ino, true),
            _ => Err(Errno::PERM),
        }
    }

    fn inode(&self, ino: Ino) -> Result<&Inode, Errno> {
        self.tree.get(ino).ok_or(Errno::STALE)
    }
}
