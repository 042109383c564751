//! An open file in the buffer.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use wire::data::{Attr, SetAttr};

use super::Namespace;
use crate::pfs::errno;
use crate::tree::{OpenFile, Result};

/// Storage nodes keep data in blocks of 4 KiB: a smaller file is not worth the question.
const HOLE_BYTES_MIN: u64 = 4096;

/// From requests of this length on, which only large files see, it is worth asking for the object itself.
const DIRECT_BYTES_MIN: usize = 1 << 20;

/// One open of one inode; closed exactly once.
pub(super) struct BufferFile<N: Namespace> {
    namespace: Arc<N>,
    ino: u64,
    write: bool,
    closed: AtomicBool,
    /// The object itself, once it was asked for: its bytes then pass no socket.
    object: OnceLock<Option<File>>,
    /// All that was in it when it was opened, if that was read then.
    ahead: Option<Vec<u8>>,
}

impl<N: Namespace> BufferFile<N> {
    pub(super) fn for_reading(namespace: Arc<N>, ino: u64, ahead: Option<Vec<u8>>) -> BufferFile<N> {
        BufferFile::new(namespace, ino, false, ahead)
    }

    pub(super) fn for_writing(namespace: Arc<N>, ino: u64) -> BufferFile<N> {
        BufferFile::new(namespace, ino, true, None)
    }

    fn new(namespace: Arc<N>, ino: u64, write: bool, ahead: Option<Vec<u8>>) -> BufferFile<N> {
        BufferFile { namespace, ino, write, closed: AtomicBool::new(false), object: OnceLock::new(), ahead }
    }

    /// The object, for a request of this length.
    fn object(&self, length: usize) -> Option<&File> {
        let known = match self.object.get() {
            None if length < DIRECT_BYTES_MIN => return None,
            Some(known) => known,
            // Refused where the file is on another host, or on several.
            None => self.object.get_or_init(|| self.namespace.object(self.ino).ok().map(File::from)),
        };
        known.as_ref()
    }
}

impl<N: Namespace> OpenFile for BufferFile<N> {
    fn attributes(&self) -> Result<Attr> {
        self.namespace.getattr(self.ino)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if let Some(ahead) = &self.ahead {
            let start = usize::try_from(offset).map_or(ahead.len(), |offset| offset.min(ahead.len()));
            let length = buffer.len().min(ahead.len() - start);
            buffer[..length].copy_from_slice(&ahead[start..start + length]);
            return Ok(length);
        }
        match self.object(buffer.len()) {
            Some(object) => object.read_at(buffer, offset).map_err(errno),
            None => self.namespace.read(self.ino, offset, buffer),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self.object(bytes.len()) {
            Some(object) => object.write_all_at(bytes, offset).map_err(errno),
            None => self.namespace.write(self.ino, offset, bytes),
        }
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
