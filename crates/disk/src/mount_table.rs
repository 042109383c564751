//! The kernel's table of what is mounted where, as this process's mount namespace sees it.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// Where the kernel shows it. Whoever has it open is told of each change (proc_pid_mounts(5)).
pub const TABLE: &str = "/proc/self/mountinfo";

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device number of its files, major and minor.
    pub device: (u32, u32),
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
}

/// The mounts, those mounted last at the end.
///
/// # Errors
/// `/proc` is not there.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read(TABLE)?))
}

/// The text of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|&byte| byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let (major, minor) = std::str::from_utf8(fields.nth(2)?).ok()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let mountpoint = unescape(fields.nth(1)?);
    // Optional fields end at a lone `-`.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let mut word = || rest.next().map(|field| String::from_utf8_lossy(field).into_owned());
    Some(Mount { device, mountpoint, kind: word()?, source: word()? })
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
    use std::path::Path;

    use super::*;

    #[test]
    fn every_mount_has_its_type_and_source_and_escapes_are_undone() {
        let table = b"22 1 0:20 / /proc rw,nosuid shared:5 - proc proc rw\n\
            36 22 0:45 / /home/a\\040b/mnt rw,nosuid shared:1 master:2 - fuse.forebay forebay-i3 rw,user_id=0\n\
            37 22 8:46 / /m\\134n rw - fuse x rw\n\
            38 22 0:47 / /c rw - fusectl fusectl rw\n";
        let found = parse(table);
        assert_eq!(found.len(), 4);
        assert_eq!(found[1].mountpoint, Path::new("/home/a b/mnt"));
        assert_eq!((found[1].kind.as_str(), found[1].source.as_str()), ("fuse.forebay", "forebay-i3"));
        assert_eq!((found[2].mountpoint.as_path(), found[2].device), (Path::new("/m\\n"), (8, 46)));
        let fuse: Vec<bool> = found.iter().map(Mount::is_fuse).collect();
        assert_eq!(fuse, [false, true, true, false]);
    }
}
