//! An open file in the buffer.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wire::data::{Attr, SetAttr};

use super::Namespace;
use crate::tree::{OpenFile, Result};

/// Storage nodes keep data in blocks of 4 KiB: a smaller file is not worth the question.
const HOLE_BYTES_MIN: u64 = 4096;

/// One open of one inode; closed exactly once.
pub(super) struct BufferFile<N: Namespace> {
    namespace: Arc<N>,
    ino: u64,
    write: bool,
    closed: AtomicBool,
}

impl<N: Namespace> BufferFile<N> {
    pub(super) fn for_reading(namespace: Arc<N>, ino: u64) -> BufferFile<N> {
        BufferFile { namespace, ino, write: false, closed: AtomicBool::new(false) }
    }

    pub(super) fn for_writing(namespace: Arc<N>, ino: u64) -> BufferFile<N> {
        BufferFile { namespace, ino, write: true, closed: AtomicBool::new(false) }
    }
}

impl<N: Namespace> OpenFile for BufferFile<N> {
    fn attributes(&self) -> Result<Attr> {
        self.namespace.getattr(self.ino)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.namespace.read(self.ino, offset, buffer)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.namespace.write(self.ino, offset, bytes)
    }

    // The space in a buffer's attributes is not measured while nobody writes.
    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        Ok(attr.size > HOLE_BYTES_MIN && self.namespace.next_hole(self.ino, 0, attr.size)? < attr.size)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.namespace.next_data(self.ino, offset)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.namespace.setattr(self.ino, &SetAttr { size: Some(size), ..SetAttr::default() }).map(drop)
    }

    fn sync(&self) -> Result<()> {
        self.namespace.fsync(self.ino)
    }

    // The client caches no file contents that are synced: a read asks the storage nodes.
    fn forget_cached(&self) -> Result<()> {
        Ok(())
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.namespace.close(self.ino, self.write)
    }
}

impl<N: Namespace> Drop for BufferFile<N> {
    fn drop(&mut self) {
        // A file that is dropped before `close` is one whose copy failed already, or one that was only read.
        let _ = self.close();
    }
}
