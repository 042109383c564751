//! Operations on names: what makes, moves and removes directory entries.
//!
//! Each checks against the tree what POSIX says, and gives the record that does it. Permission bits are the kernel's to
//! check (`default_permissions`); what needs the whole tree is checked here.

use model::Ino;
use rustix::io::Errno;
use wire::data::message::RenameMode;
use wire::data::{Creator, FileKind, NAME_BYTES_MAX, SYMLINK_BYTES_MAX, Time};

use super::acl::{self, Acl};
use super::record::{InodeRecord, Kind, Record, XattrPairs};
use super::tree::{Directory, Inode, Tree};

/// Set-group-id: on a directory, what is made in it inherits its group.
const SET_GID: u32 = 0o2000;

/// A new inode, as asked for.
pub struct NewInode<'a> {
    pub kind: FileKind,
    pub mode: u32,
    pub rdev: u64,
    /// A symbolic link's text.
    pub target: &'a [u8],
    pub creator: Creator,
    /// Open for writing from the start.
    pub live: bool,
}

/// The directory `ino`, or why it is none.
pub fn directory(tree: &Tree, ino: Ino) -> Result<(&Inode, &Directory), Errno> {
    let inode = tree.get(ino).ok_or(Errno::STALE)?;
    Ok((inode, inode.directory().ok_or(Errno::NOTDIR)?))
}

/// The directory `ino`, to put a name into: one that was removed takes none.
fn living(tree: &Tree, ino: Ino) -> Result<(&Inode, &Directory), Errno> {
    let (inode, entries) = directory(tree, ino)?;
    if inode.nlink == 0 { Err(Errno::NOENT) } else { Ok((inode, entries)) }
}

/// The inode behind a name; behind `.` itself, of any kind: so it is found by a file handle.
pub fn lookup(tree: &Tree, parent: Ino, name: &[u8]) -> Result<Ino, Errno> {
    if name == b"." {
        let inode = tree.get(parent).ok_or(Errno::STALE)?;
        let is_removed = inode.nlink == 0 && inode.kind != FileKind::Regular;
        return if is_removed { Err(Errno::STALE) } else { Ok(parent) };
    }
    let (_, entries) = directory(tree, parent)?;
    match name {
        b".." => Ok(entries.parent),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
        _ => entries.get(name).ok_or(Errno::NOENT),
    }
}

/// Makes an inode under a new name.
pub fn make(
    tree: &Tree,
    parent: Ino,
    name: &[u8],
    new: &NewInode<'_>,
    time: Time,
) -> Result<(Ino, Record), Errno> {
    let (folder, entries) = living(tree, parent)?;
    free(entries, name)?;
    if new.target.len() > SYMLINK_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let is_directory = new.kind == FileKind::Directory;
    let inherits = folder.mode & SET_GID != 0;
    let (mode, xattrs) = permissions(folder, new);
    let inode = InodeRecord {
        kind: Kind::from(new.kind),
        mode: mode | if inherits && is_directory { SET_GID } else { 0 },
        nlink: if is_directory { 2 } else { 1 },
        uid: new.creator.uid,
        gid: if inherits { folder.gid } else { new.creator.gid },
        rdev: new.rdev,
        size: 0,
        live: new.live,
        atime: time,
        mtime: time,
        ctime: time,
        target: new.target.to_vec(),
        parent: if is_directory { parent } else { Ino(0) },
        next_cookie: 1,
        xattrs,
    };
    let ino = tree.next_ino();
    Ok((ino, Record::Make { parent, name: name.to_vec(), ino, inode }))
}

/// The mode and the access lists of what is made in a folder.
fn permissions(folder: &Inode, new: &NewInode<'_>) -> (u32, XattrPairs) {
    let mode = new.mode & 0o7777;
    if new.kind == FileKind::Symlink {
        return (mode, Vec::new());
    }
    let default = folder.xattr(acl::DEFAULT);
    // A list that is kept was checked when it was set.
    let Some((default, Ok(acl))) = default.map(|value| (value, Acl::parse(value))) else {
        return (mode & !new.creator.umask, Vec::new());
    };
    let access = acl.inherited(mode);
    let mut lists = Vec::new();
    if !access.is_minimal() {
        lists.push((acl::ACCESS.to_vec(), access.to_bytes()));
    }
    if new.kind == FileKind::Directory {
        lists.push((acl::DEFAULT.to_vec(), default.to_vec()));
    }
    (mode & 0o7000 | access.mode(), lists)
}

/// Gives an inode one more name.
pub fn link(tree: &Tree, ino: Ino, parent: Ino, name: &[u8], time: Time) -> Result<Record, Errno> {
    let inode = tree.get(ino).ok_or(Errno::STALE)?;
    if inode.kind == FileKind::Directory {
        return Err(Errno::PERM);
    }
    if inode.nlink == 0 {
        return Err(Errno::NOENT);
    }
    free(living(tree, parent)?.1, name)?;
    Ok(Record::Link { ino, parent, name: name.to_vec(), time })
}

/// Takes a name away from anything but a directory. Gives the inode too.
pub fn unlink(tree: &Tree, parent: Ino, name: &[u8], time: Time) -> Result<(Ino, Record), Errno> {
    let ino = lookup(tree, parent, name)?;
    if tree.get(ino).is_some_and(|inode| inode.kind == FileKind::Directory) {
        return Err(Errno::ISDIR);
    }
    Ok((ino, Record::Remove { parent, name: name.to_vec(), time }))
}

/// Removes an empty directory.
pub fn rmdir(tree: &Tree, parent: Ino, name: &[u8], time: Time) -> Result<Record, Errno> {
    match name {
        b"." => return Err(Errno::INVAL),
        b".." => return Err(Errno::NOTEMPTY),
        _ => {}
    }
    let ino = lookup(tree, parent, name)?;
    if !directory(tree, ino)?.1.is_empty() {
        return Err(Errno::NOTEMPTY);
    }
    Ok(Record::Remove { parent, name: name.to_vec(), time })
}

/// Both ends of a rename.
pub struct Move<'a> {
    pub parent: Ino,
    pub name: &'a [u8],
    pub new_parent: Ino,
    pub new_name: &'a [u8],
    pub mode: RenameMode,
}

/// Moves a name. Gives the inode that lost its name at the target, if one did, and the record; `None` where both names
/// are the same inode already, so that nothing is to be done.
pub fn rename(tree: &Tree, m: &Move<'_>, time: Time) -> Result<Option<(Option<Ino>, Record)>, Errno> {
    if [m.name, m.new_name].iter().any(|name| matches!(*name, b"." | b"..")) {
        return Err(Errno::BUSY);
    }
    let source = lookup(tree, m.parent, m.name)?;
    living(tree, m.new_parent)?;
    let target = match lookup(tree, m.new_parent, m.new_name) {
        Ok(ino) => Some(ino),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(error),
    };
    not_below_itself(tree, source, m.new_parent)?;
    let (name, new_name) = (m.name.to_vec(), m.new_name.to_vec());
    if m.mode == RenameMode::Exchange {
        let target = target.ok_or(Errno::NOENT)?;
        not_below_itself(tree, target, m.parent)?;
        let record = Record::Exchange { parent: m.parent, name, new_parent: m.new_parent, new_name, time };
        return Ok((target != source).then_some((None, record)));
    }
    if let Some(target) = target {
        if m.mode == RenameMode::NoReplace {
            return Err(Errno::EXIST);
        }
        if target == source {
            return Ok(None);
        }
        replaceable(tree, source, target)?;
    }
    Ok(Some((target, Record::Rename { parent: m.parent, name, new_parent: m.new_parent, new_name, time })))
}

fn replaceable(tree: &Tree, source: Ino, target: Ino) -> Result<(), Errno> {
    let is_directory = |ino| tree.get(ino).is_some_and(|inode: &Inode| inode.kind == FileKind::Directory);
    match (is_directory(source), is_directory(target)) {
        (true, false) => Err(Errno::NOTDIR),
        (false, true) => Err(Errno::ISDIR),
        (true, true) if !directory(tree, target)?.1.is_empty() => Err(Errno::NOTEMPTY),
        _ => Ok(()),
    }
}

/// A directory must not become its own descendant.
fn not_below_itself(tree: &Tree, moved: Ino, new_parent: Ino) -> Result<(), Errno> {
    let mut at = new_parent;
    loop {
        if at == moved {
            return Err(Errno::INVAL);
        }
        let parent = directory(tree, at)?.1.parent;
        if parent == at {
            return Ok(());
        }
        at = parent;
    }
}

/// A name that may be given to something new.
fn free(entries: &Directory, name: &[u8]) -> Result<(), Errno> {
    match name {
        b"" | b"." | b".." => Err(Errno::EXIST),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::NAMETOOLONG),
        _ if name.iter().any(|byte| matches!(byte, 0 | b'/')) => Err(Errno::INVAL),
        _ if entries.get(name).is_some() => Err(Errno::EXIST),
        _ => Ok(()),
    }
}
