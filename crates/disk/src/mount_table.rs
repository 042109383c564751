//! The kernel's table of what is mounted where, as this process's mount namespace sees it.

pub mod reach;

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::io::Errno;

/// Where the kernel shows it. Whoever has it open is told of each change (proc_pid_mounts(5)).
pub const TABLE: &str = "/proc/self/mountinfo";

/// The type of a place where something is mounted as soon as somebody goes there.
const AUTOMOUNT: &str = "autofs";

/// The type of the mounts of our namespaces, behind `fuse.`.
pub const KIND: &str = "forebay";

/// What such a mount is called begins with this; then comes the instance.
const NAMED: &str = "forebay-";

/// What a mount of the instance is called.
pub fn name_of(instance: &str) -> String {
    format!("{NAMED}{instance}")
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kernel's number of this mount, as long as it is mounted.
    pub id: u64,
    /// The device number of its files, major and minor.
    pub device: (u32, u32),
    /// Which folder of the file system is mounted.
    pub root: PathBuf,
    /// Where.
    pub mountpoint: PathBuf,
    /// The file system's type.
    pub kind: String,
    /// What the file system calls the thing that is mounted.
    pub source: String,
}

impl Mount {
    /// Whether it is a FUSE file system.
    pub fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// The instance that it is a namespace of; `None` where it is somebody else's.
    pub fn instance(&self) -> Option<&str> {
        let is_ours = self.kind.strip_prefix("fuse.") == Some(KIND);
        self.source.strip_prefix(NAMED).filter(|_| is_ours)
    }

    /// Whether a path that is on this mount was to be on one of the type `kind` at `mountpoint`, which is gone: what is
    /// seen there now is the folder below that mount point, or the trap that an automounter has put there. A path that
    /// leads to another place now is none of this one's business.
    pub fn is_below_lost(&self, mountpoint: &Path, kind: &str) -> bool {
        match self.mountpoint == mountpoint {
            true => self.kind == AUTOMOUNT && kind != AUTOMOUNT,
            false => mountpoint.starts_with(&self.mountpoint),
        }
    }
}

/// The mounts, those mounted last at the end.
///
/// # Errors
/// `/proc` is not there.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read(TABLE)?))
}

/// The mount that `path` is on, or would be: that of the nearest folder above it which is there and may be looked at.
///
/// # Errors
/// The file system's, or the kernel does not tell (before 5.8).
pub fn holding(path: &Path) -> io::Result<Mount> {
    let id = path.ancestors().find_map(|place| number(place).transpose());
    let id = id.unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()))?;
    let found = mounts()?.into_iter().find(|mount| mount.id == id);
    found.ok_or_else(|| io::Error::other(format!("mount {id} of {} is not in {TABLE}", path.display())))
}

/// The number of the mount that `path` is on; `None`: there is nothing, or nobody may look.
fn number(path: &Path) -> io::Result<Option<u64>> {
    match rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID) {
        Ok(found) if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 => {
            Err(io::ErrorKind::Unsupported.into())
        }
        Ok(found) => Ok(Some(found.stx_mnt_id)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The text of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let (major, minor) = std::str::from_utf8(fields.nth(1)?).ok()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let (root, mountpoint) = (unescape(fields.next()?), unescape(fields.next()?));
    // Optional fields end at a lone `-`.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let mut word = || rest.next().map(|field| String::from_utf8_lossy(field).into_owned());
    Some(Mount { id, device, root, mountpoint, kind: word()?, source: word()? })
}

/// Undoes the kernel's `\ooo` for space, tab, line feed and backslash.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match octal(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The byte that a leading `\ooo` stands for.
fn octal(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"\\")?.get(..3)?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mount_has_its_type_and_source_and_escapes_are_undone() {
        let table = b"22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
            36 22 0:45 / /home/a\\040b/mnt rw,nosuid shared:1 master:2 - fuse.forebay forebay-i3 rw,user_id=0\n\
            37 22 8:46 /bound /m\\134n rw - fuse x rw\n\
            38 22 0:47 / /c rw - fusectl fusectl rw\n";
        let found = parse(table);
        assert_eq!(found.len(), 4);
        assert_eq!(found[1].mountpoint, Path::new("/home/a b/mnt"));
        assert_eq!((found[1].kind.as_str(), found[1].source.as_str()), ("fuse.forebay", "forebay-i3"));
        assert_eq!(found[2].root, Path::new("/bound"));
        assert_eq!((found[2].mountpoint.as_path(), found[2].device), (Path::new("/m\\n"), (8, 46)));
        let fuse: Vec<bool> = found.iter().map(Mount::is_fuse).collect();
        assert_eq!(fuse, [false, true, true, false]);
        assert_eq!(found.iter().map(|mount| mount.id).collect::<Vec<_>>(), [22, 36, 37, 38]);
    }

    #[test]
    fn a_path_is_on_the_mount_of_what_is_there_above_it() {
        let proc = holding(Path::new("/proc/self/no such/folder")).unwrap();
        assert_eq!((proc.mountpoint.as_path(), proc.kind.as_str()), (Path::new("/proc"), "proc"));
        assert_eq!(holding(Path::new("/no such folder/file")).unwrap().mountpoint, Path::new("/"));
        holding(Path::new("a/relative path")).unwrap_err();
    }

    #[test]
    fn what_lies_below_a_mount_point_is_not_the_file_system_that_was_there() {
        let at = |mountpoint: &str, kind: &str| Mount {
            mountpoint: mountpoint.into(),
            kind: kind.into(),
            ..holding(Path::new("/")).unwrap()
        };
        let lustre = |now: &Mount| now.is_below_lost(Path::new("/lustre"), "lustre");
        assert!(lustre(&at("/", "ext4")));
        assert!(lustre(&at("/lustre", "autofs")));
        assert!(!lustre(&at("/lustre", "lustre")));
        assert!(!lustre(&at("/lustre/home", "nfs4")), "a file system within it was mounted since");
        assert!(!lustre(&at("/lustre2", "lustre")), "the path leads to another file system since");
    }
}
