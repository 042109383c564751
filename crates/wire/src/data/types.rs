//! What messages are made of: attributes of inodes, as POSIX has them.

use model::Ino;
use serde::{Deserialize, Serialize};

/// A point in time since 1970-01-01 00:00:00 UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time {
    /// Whole seconds, negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, `0..1_000_000_000`.
    pub nanos: u32,
}

/// The type of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A unix socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

/// What `stat` tells of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// Its number: home shard in the upper 16 bits, a counter in the lower 48.
    pub ino: Ino,
    /// Its type.
    pub kind: FileKind,
    /// Permission bits with set-user-id, set-group-id and sticky: `0..=0o7777`.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, for device nodes.
    pub rdev: u64,
    /// Size, bytes.
    pub size: u64,
    /// Space, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of the contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
}

impl Attr {
    /// When the contents changed last, of a file whose objects were last written at `written` and whose time of change
    /// was set `times` times. A time that was set holds until the next write; whether one came after it tells the time
    /// of the setting, which is the inode's last change or earlier. The clock by which file systems date writes is a
    /// tick behind the one that dates changes of inodes, so a write that follows within a tick is not seen as one, and
    /// does not put the time back to before the file was made. Whoever knows that the write came later passes 0 for
    /// `times`.
    pub fn changed(&self, times: u64, written: Time) -> Time {
        let is_in_the_future = self.mtime > self.ctime;
        if times > 0 && written <= self.ctime {
            self.mtime
        } else if is_in_the_future {
            written
        } else {
            self.mtime.max(written)
        }
    }
}

/// Which attributes to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttr {
    /// Permission bits, `0..=0o7777`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size, bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of the contents.
    pub mtime: Option<Time>,
    /// Clear set-user-id and set-group-id, as a write or truncation by an unprivileged user does.
    pub drop_privileges: bool,
}

/// In whose name an inode is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Creator {
    /// Owner of the new inode.
    pub uid: u32,
    /// Its group, unless the folder's set-group-id bit says otherwise.
    pub gid: u32,
    /// Permission bits that it does not get, unless the folder has a default access list.
    pub umask: u32,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Where to go on after this entry; stays valid while entries come and go.
    pub cookie: u64,
    /// Its name.
    pub name: Vec<u8>,
    /// What it names.
    pub attr: Attr,
}

/// A POSIX range lock or a `flock`, held or asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileLock {
    /// What it lets others do.
    pub kind: LockKind,
    /// First byte.
    pub start: u64,
    /// Last byte, included; `u64::MAX` for "to the end".
    pub end: u64,
    /// The process that asked, as its node knows it; for `F_GETLK` only.
    pub pid: u32,
    /// A lock of `flock(2)`: on the whole file, and apart from range locks.
    pub whole_file: bool,
}

impl FileLock {
    /// Whether it is a range at all.
    pub fn is_sound(&self) -> bool {
        self.start <= self.end
    }

    /// What is left of this lock when its holder takes or gives up `new`: nothing, one part, or one on each side.
    pub fn outside(&self, new: &FileLock) -> impl Iterator<Item = FileLock> + use<> {
        let parts = if self.whole_file != new.whole_file {
            [Some(*self), None]
        } else {
            let before = (self.start < new.start).then(|| self.end.min(new.start - 1));
            let after = (self.end > new.end).then(|| self.start.max(new.end + 1));
            [before.map(|end| FileLock { end, ..*self }), after.map(|start| FileLock { start, ..*self })]
        };
        parts.into_iter().flatten()
    }
}

/// What a lock lets others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LockKind {
    /// Lock too, as long as they share as well.
    Shared,
    /// Nothing.
    Exclusive,
    /// Everything: the lock is given up.
    Unlock,
}
