//! The folder that a log lies in, as a log uses it: few operations, so that tests can put a disk below it that fails and
//! loses power at each of them.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, RenameFlags};

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

    /// Cuts it off.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes what was written survive a power loss.
    fn sync(&self) -> io::Result<()>;
}

/// A folder of the file system.
#[derive(Debug)]
pub struct DiskFolder {
    path: PathBuf,
    /// Kept open: a sync must not fail because the process has no descriptor left.
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

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }
}

impl Folder for DiskFolder {
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(DiskFile(DiskFolder::options().open(self.path.join(name))?)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let file = DiskFolder::options().create(true).truncate(true).open(self.path.join(name))?;
        Ok(Arc::new(DiskFile(file)))
    }

    fn publish(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path.join(from), self.path.join(to));
        Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
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

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}

