//! The folder that a log lies in, as a log uses it: few operations, so that tests can put a disk below it that fails
//! and loses power at each of them.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, RenameFlags, renameat, renameat_with, unlinkat};

/// A folder with a log in it.
pub trait Folder: Debug + Send + Sync {
    /// Opens a file that must be there.
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;

    /// Makes an empty file in place of whatever has the name.
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;

    /// Gives a file a name that is free; EEXIST where it is not.
    fn publish(&self, from: &str, to: &str) -> io::Result<()>;

    /// Gives a file the name of another, which is gone then.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names in the folder survive a power loss.
    fn sync(&self) -> io::Result<()>;

    /// Where a file of this name is, for messages.
    fn path_of(&self, name: &str) -> PathBuf;
}

/// A file in it.
pub trait LogFile: Debug + Send + Sync {
    /// Its length, bytes.
    fn len(&self) -> io::Result<u64>;

    /// Reads up to `len` bytes; fewer only at the end.
    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>>;

    /// Writes all of `bytes`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// The space that it has, bytes.
    fn space(&self) -> io::Result<u64>;

    /// Gives it its space up to `until`, without making it longer.
    fn reserve(&self, until: u64) -> io::Result<()>;

    /// Cuts it off.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes what was written survive a power loss.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the file system. Its files are reached by way of the open folder: when it gets another name, or goes,
/// nothing that takes its place is touched.
#[derive(Debug)]
pub struct DiskFolder {
    /// For messages.
    path: PathBuf,
    handle: File,
}

impl DiskFolder {
    /// The folder at `path`, which must be there.
    ///
    /// # Errors
    /// The errno of `open`.
    pub fn open(path: &Path) -> io::Result<DiskFolder> {
        Ok(DiskFolder { path: path.to_owned(), handle: File::open(path)? })
    }

    fn file(&self, name: &str, how: OFlags) -> io::Result<Arc<dyn LogFile>> {
        let flags = how | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Arc::new(DiskFile(file.into())))
    }
}

impl Folder for DiskFolder {
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        self.file(name, OFlags::empty())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        self.file(name, OFlags::CREATE | OFlags::TRUNC)
    }

    fn publish(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE)?)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.handle, from, &self.handle, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.handle, name, AtFlags::empty())?)
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl LogFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut done = 0;
        while done < len {
            match self.0.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(done);
        Ok(bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn space(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.blocks() * 512)
    }

    fn reserve(&self, until: u64) -> io::Result<()> {
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, until)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
