//! An open file on the PFS.

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{Advice, AtFlags, SeekFrom, StatxFlags};
use rustix::io::Errno;
use wire::data::Attr;

use super::{attributes, errno};
use crate::tree::{OpenFile, Result, TargetFile};

/// An open file; closed on drop. Nothing that close(2) could report is lost: whoever wrote has called `sync`.
pub struct PfsFile(File);

impl PfsFile {
    pub(super) fn new(file: File) -> PfsFile {
        PfsFile(file)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

impl OpenFile for PfsFile {
    // Those of the server: on NFS, a client that has the file open may answer with what it heard some seconds ago.
    fn attributes(&self) -> Result<Attr> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        // What is asked for is what fills the caches that the next call answers from.
        rustix::fs::statx(&self.0, "", flags, StatxFlags::BASIC_STATS)?;
        self.0.metadata().map(|metadata| attributes(&metadata)).map_err(errno)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.0.read_at(buffer, offset).map_err(errno)
    }

    // Less space than size: there are holes, or the file system compresses.
    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        Ok(attr.blocks.saturating_mul(512) < attr.size)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        // The file's own position is of no use to anybody: threads that share it may move it as they like.
        match rustix::fs::seek(&self.0, SeekFrom::Data(offset)) {
            Ok(start) => Ok(Some(start..rustix::fs::seek(&self.0, SeekFrom::Hole(start))?)),
            Err(Errno::NXIO) => Ok(None),
            // A file system without the notion has no holes to tell.
            Err(Errno::INVAL) => Ok(Some(offset..u64::MAX)),
            Err(error) => Err(error),
        }
    }

    fn forget_cached(&self) -> Result<()> {
        rustix::fs::fadvise(&self.0, 0, None, Advice::DontNeed)
    }
}

impl TargetFile for PfsFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(bytes, offset).map_err(errno)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.0.set_len(size).map_err(errno)
    }

    // The advice that the range is not needed has the kernel write it back, and wait for nothing: what is not clean
    // stays.
    fn begin_sync(&self, range: Range<u64>) {
        let length = NonZeroU64::new(range.end - range.start);
        let _advice_only = rustix::fs::fadvise(&self.0, range.start, length, Advice::DontNeed);
    }

    fn sync(&self) -> Result<()> {
        self.0.sync_all().map_err(errno)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}
