//! Regular files, and nothing else that has their names: who opens a pipe waits until somebody opens its other end, and
//! a device does whatever it does.
//!
//! **Invariant:** whoever opens a file under a name that others can take opens it here, and waits for nobody.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// Opens the regular file at `path`, links followed.
///
/// # Errors
/// Of `open`; one that says so where something else is there.
pub fn open(path: &Path, flags: OFlags, mode: Mode) -> Result<File> {
    only(|also| openat(CWD, path, flags | also, mode))
}

/// What `open` opens with these flags, too, if it is a regular file.
pub(crate) fn only(open: impl FnOnce(OFlags) -> rustix::io::Result<OwnedFd>) -> Result<File> {
    let opened = match open(OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC) {
        // To write; also a socket.
        Err(Errno::NXIO | Errno::NODEV) => {
            return Err(another("a pipe that nobody reads, a socket or a device"));
        }
        opened => opened?,
    };
    match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
        FileType::RegularFile => Ok(opened.into()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Fifo => Err(another("a pipe")),
        _ => Err(another("a device")),
    }
}

/// Whether something was not opened as it is neither a regular file nor a folder.
pub(crate) fn is_another(error: &Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.raw_os_error().is_none()
}

fn another(what: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("it is not a regular file but {what}; move it away"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{FileType, mknodat};

    use super::*;
    use crate::below::Root;

    #[test]
    fn who_opens_a_pipe_or_a_device_in_the_place_of_a_file_is_told_so_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, link] = ["pipe", "link"].map(|name| folder.path().join(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        std::os::unix::fs::symlink("/dev/null", &link).unwrap();
        for flags in [OFlags::RDONLY, OFlags::WRONLY | OFlags::CREATE, OFlags::RDWR | OFlags::APPEND] {
            for path in [&pipe, &link] {
                let error = open(path, flags, Mode::from_raw_mode(0o600)).unwrap_err();
                assert!(is_another(&error) && error.to_string().contains("move it away"), "{error}");
            }
        }
        assert!(is_another(&crate::read(&pipe).unwrap_err()));
        let root = Root::at(folder.path());
        assert!(is_another(&root.open_file(&pipe, OFlags::RDONLY, Mode::empty()).unwrap_err()));
        // In the place of a draft it goes, as a link does.
        let place = root.reach(Path::new("x")).unwrap();
        place.create("pipe".as_ref()).unwrap().write_all(b"text").unwrap();
        assert_eq!(crate::read(&pipe).unwrap().as_deref(), Some(&b"text"[..]));
    }
}
