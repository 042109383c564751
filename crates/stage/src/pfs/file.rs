//! An open file on the PFS.

use std::collections::HashMap;
use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::fs::{Advice, AtFlags, SeekFrom, Statx, StatxFlags};
use rustix::io::Errno;
use wire::data::Attr;

use super::{attributes, device, errno};
use crate::tree::{Found, OpenFile, Result, TargetFile};

/// An open file; closed on drop. Nothing that close(2) could report is lost: whoever wrote has called `sync`.
pub struct PfsFile {
    file: Arc<File>,
    born: Option<(i64, u32)>,
}

/// Files that are open, by device and inode number: what is done to one of them needs no way to it.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<HashMap<(u64, u64), Weak<File>>>);

impl OpenFiles {
    /// A file, with its attributes.
    pub(super) fn note(&self, file: File, found: &Statx) -> PfsFile {
        let (file, id) = (Arc::new(file), (device(found), found.stx_ino));
        let mut known = self.lock();
        if known.len() == known.capacity() {
            known.retain(|_, file| file.strong_count() > 0);
        }
        known.insert(id, Arc::downgrade(&file));
        let knows_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        PfsFile { file, born: knows_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec)) }
    }

    /// An entry, if it is open: its inode number is no other file's meanwhile.
    pub(super) fn get(&self, entry: &Found) -> Option<Arc<File>> {
        self.lock().get(&(entry.device, entry.attr.ino.into()))?.upgrade()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, u64), Weak<File>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PfsFile {
    /// When the inode was made, seconds and nanoseconds since 1970, where the file system knows: it tells the file from
    /// an earlier one with its number.
    pub fn born(&self) -> Option<(i64, u32)> {
        self.born
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl OpenFile for PfsFile {
    // Those of the server: on NFS, a client that has the file open may answer with what it heard some seconds ago.
    fn attributes(&self) -> Result<Attr> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        rustix::fs::statx(&self.file, "", flags, StatxFlags::BASIC_STATS).map(|found| attributes(&found))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(buffer, offset).map_err(errno)
    }

    // Less space than size: there are holes, or the file system compresses.
    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        Ok(attr.blocks.saturating_mul(512) < attr.size)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        // The file's own position is of no use to anybody: threads that share it may move it as they like.
        match rustix::fs::seek(&self.file, SeekFrom::Data(offset)) {
            Ok(start) => Ok(Some(start..rustix::fs::seek(&self.file, SeekFrom::Hole(start))?)),
            Err(Errno::NXIO) => Ok(None),
            // A file system without the notion has no holes to tell.
            Err(Errno::INVAL) => Ok(Some(offset..u64::MAX)),
            Err(error) => Err(error),
        }
    }

    fn forget_cached(&self) -> Result<()> {
        rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed)
    }
}

impl TargetFile for PfsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(errno)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.file.set_len(size).map_err(errno)
    }

    // The advice that the range is not needed has the kernel write it back, and wait for nothing: what is not clean
    // stays.
    fn begin_sync(&self, range: Range<u64>) {
        let length = NonZeroU64::new(range.end - range.start);
        let _advice_only = rustix::fs::fadvise(&self.file, range.start, length, Advice::DontNeed);
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(errno)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
