//! The PFS: any mounted file system, reached by path with the rights of the calling thread.
//!
//! **Invariant:** nothing is opened or changed through a symbolic link in the last component of a path.

mod batch;
mod file;
mod stores;

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use wire::control::Side;
use wire::data::{Attr, FileKind, SetAttr, Time};

pub use self::file::PfsFile;
use crate::tree::{
    Batch, Found, Listing, New, OpenFile, Placement, Result, Source, Target, TargetFile, Tree, Xattr,
    is_access_list, keeps_xattr, on_one_line,
};

/// The PFS side of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pfs;

impl Pfs {
    /// Opens a regular file for reading: [`Tree::open`].
    ///
    /// # Errors
    /// The file system's; STALE where it is not a regular file any more.
    pub fn open_file(self, file: &Found) -> Result<PfsFile> {
        let opened = open_regular(fs::OpenOptions::new().read(true), &file.path)?;
        stores::stamp_from_now_on(opened.file());
        Ok(opened)
    }
}

impl Tree for Pfs {
    fn side(&self) -> Side {
        Side::Pfs
    }

    fn show(&self, path: &Path) -> String {
        on_one_line(path)
    }

    fn find(&self, path: &Path) -> Result<Found> {
        let metadata = fs::symlink_metadata(path).map_err(errno)?;
        Ok(found(path.to_owned(), &metadata))
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        let entry = self.find(path)?;
        if entry.attr.kind != FileKind::Symlink {
            return Ok(entry);
        }
        self.find(&fs::canonicalize(path).map_err(errno)?)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let path = folder.path.clone();
        let entries = fs::read_dir(&path).map_err(errno)?;
        Ok(Box::new(entries.map(move |entry| {
            let entry = entry.map_err(|error| (path.clone(), errno(error)))?;
            match entry.metadata() {
                Ok(metadata) => Ok(found(entry.path(), &metadata)),
                Err(error) => Err((entry.path(), errno(error))),
            }
        })))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(self.open_file(file)?))
    }
}

impl Source for Pfs {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        fs::read_link(&link.path).map_err(errno)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        let names = match xattr_names(&entry.path) {
            Err(Errno::NOTSUP) => return Ok(Vec::new()),
            names => names?,
        };
        let kept = names.split(|byte| *byte == 0).filter(|name| keeps_xattr(name));
        let read = kept.map(|name| Ok((name.to_vec(), xattr_value(&entry.path, name)?)));
        // One that was removed meanwhile is none.
        read.filter(|read| !matches!(read, Err(Errno::NODATA))).collect()
    }
}

impl Target for Pfs {
    fn placement(&self) -> Placement {
        Placement::Renamed
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        Ok(Box::new(open_regular(fs::OpenOptions::new().read(true).write(true), &file.path)?))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(path).map_err(errno)?;
        let metadata = file.metadata().map_err(errno)?;
        Ok((found(path.to_owned(), &metadata), Box::new(PfsFile::new(file))))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        match new {
            New::Folder(mode) => fs::DirBuilder::new().mode(mode).create(path).map_err(errno)?,
            New::Symlink(text) => std::os::unix::fs::symlink(text, path).map_err(errno)?,
            New::Node { kind, rdev } => {
                rustix::fs::mknodat(CWD, path, node_type(kind)?, Mode::from_raw_mode(0o600), rdev)?;
            }
        }
        self.find(path)
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        fs::hard_link(&existing.path, path).map_err(errno)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(errno)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(errno)
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        fs::remove_dir(path).map_err(errno)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        let folder = fs::File::open(path).map_err(errno)?;
        folder.sync_all().map_err(errno)
    }

    fn begin_batch(&self, folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        batch::begin(folder)
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        let path = &entry.path;
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = change.mode {
            set_mode(path, mode)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times =
                Timestamps { last_access: timespec(change.atime), last_modification: timespec(change.mtime) };
            rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    fn set_xattr(&self, entry: &Found, (name, value): &Xattr) -> Result<()> {
        rustix::fs::lsetxattr(&entry.path, name.as_slice(), value, XattrFlags::empty())
    }

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        let names = match xattr_names(&entry.path) {
            Err(Errno::NOTSUP) => return Ok(()),
            names => names?,
        };
        let is_kept = |name: &[u8]| kept.iter().any(|(kept, _)| kept == name);
        let names = names.split(|byte| *byte == 0);
        for name in names.filter(|name| is_access_list(name) && !is_kept(name)) {
            rustix::fs::lremovexattr(&entry.path, name)?;
        }
        Ok(())
    }
}

/// Opens a file that must be a regular one.
fn open_regular(options: &mut fs::OpenOptions, path: &Path) -> Result<PfsFile> {
    // Without NONBLOCK the open would hang if somebody put a pipe in the file's place meanwhile.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = PfsFile::new(options.custom_flags(raw(flags)).open(path).map_err(errno)?);
    if opened.attributes()?.kind != FileKind::Regular {
        return Err(Errno::STALE);
    }
    Ok(opened)
}

/// Changes permission bits without following a link: `fchmodat` cannot on kernels before 6.6, so the way is a
/// descriptor that stands for the name only.
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::fd::AsRawFd;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::chmod(format!("/proc/self/fd/{}", name.as_raw_fd()), Mode::from_raw_mode(mode))
}

/// Names of extended attributes, each closed by a NUL.
fn xattr_names(path: &Path) -> Result<Vec<u8>> {
    let mut names = vec![0; rustix::fs::llistxattr_query(path)?];
    if !names.is_empty() {
        let length = rustix::fs::llistxattr(path, names.as_mut_slice())?;
        names.truncate(length);
    }
    Ok(names)
}

fn xattr_value(path: &Path, name: &[u8]) -> Result<Vec<u8>> {
    let mut value = vec![0; rustix::fs::lgetxattr_query(path, name)?];
    if !value.is_empty() {
        let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice())?;
        value.truncate(length);
    }
    Ok(value)
}

fn found(path: PathBuf, metadata: &Metadata) -> Found {
    Found { path, device: metadata.dev(), attr: attributes(metadata), since: Instant::now() }
}

pub(crate) fn attributes(metadata: &Metadata) -> Attr {
    Attr {
        ino: metadata.ino().into(),
        kind: kind(metadata),
        mode: metadata.mode() & 0o7777,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev(),
        size: metadata.size(),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: time(metadata.mtime(), metadata.mtime_nsec()),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
    }
}

fn kind(metadata: &Metadata) -> FileKind {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => FileKind::Directory,
        () if kind.is_symlink() => FileKind::Symlink,
        () if kind.is_fifo() => FileKind::Fifo,
        () if kind.is_socket() => FileKind::Socket,
        () if kind.is_char_device() => FileKind::CharDevice,
        () if kind.is_block_device() => FileKind::BlockDevice,
        () => FileKind::Regular,
    }
}

fn node_type(kind: FileKind) -> Result<FileType> {
    match kind {
        FileKind::Fifo => Ok(FileType::Fifo),
        FileKind::Socket => Ok(FileType::Socket),
        FileKind::CharDevice => Ok(FileType::CharacterDevice),
        FileKind::BlockDevice => Ok(FileType::BlockDevice),
        FileKind::Regular | FileKind::Directory | FileKind::Symlink => Err(Errno::INVAL),
    }
}

fn time(seconds: i64, nanos: i64) -> Time {
    Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) }
}

fn timespec(time: Option<Time>) -> Timespec {
    match time {
        Some(time) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
    }
}

fn raw(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).expect("open flags fit the C int that open(2) takes")
}

/// The errno in an error of std; std's own errors (a NUL in a path) are invalid arguments.
pub(crate) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

/// Whether a path ends with a slash, which `Path` otherwise hides.
pub(crate) fn ends_with_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().last() == Some(&b'/')
}
