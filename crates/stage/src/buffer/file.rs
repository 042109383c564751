//! An open file in the buffer.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::{Attr, SetAttr};

use crate::pfs::{attributes, of_open};
use crate::tree::{OpenFile, Result, TargetFile};
use client::{Operations, RequestId};

/// Storage nodes keep data in blocks of 4 KiB: a smaller file is not worth the question.
const HOLE_BYTES_MIN: u64 = 4096;

/// From requests of this length on, which only large files see, it is worth asking for the object itself.
const DIRECT_BYTES_MIN: usize = 1 << 20;

/// One open of one inode; closed exactly once.
pub(super) struct BufferFile<N: Operations> {
    namespace: Arc<N>,
    ino: Ino,
    write: bool,
    closed: AtomicBool,
    /// The objects on this host, by their fragments, that were asked for to write to: their bytes pass no socket.
    /// `None`: refused.
    objects: Mutex<HashMap<FragmentIndex, Option<Arc<File>>>>,
    /// All that was in it when it was opened, if that was read then.
    ahead: Option<Vec<u8>>,
}

impl<N: Operations> BufferFile<N> {
    pub(super) fn for_reading(namespace: Arc<N>, ino: Ino, ahead: Option<Vec<u8>>) -> BufferFile<N> {
        BufferFile::new(namespace, ino, false, ahead)
    }

    pub(super) fn for_writing(namespace: Arc<N>, ino: Ino) -> BufferFile<N> {
        BufferFile::new(namespace, ino, true, None)
    }

    fn new(namespace: Arc<N>, ino: Ino, write: bool, ahead: Option<Vec<u8>>) -> BufferFile<N> {
        BufferFile { namespace, ino, write, closed: AtomicBool::new(false), objects: Mutex::default(), ahead }
    }

    /// The object that holds a range, and the offset there. Not of a file that is only read: its node compares what it
    /// reads with the checksums, and a copy is not to be called verified without that.
    fn object(&self, offset: u64, length: usize) -> Option<(Arc<File>, u64)> {
        if !self.write {
            return None;
        }
        let length_there = u64::try_from(length).expect("a request's length fits 64 bits");
        let (fragment, place) = self.namespace.place(self.ino, offset, length_there)?;
        let mut objects = self.objects.lock().expect("no thread panics with the lock");
        let known = match objects.get(&fragment) {
            Some(known) => known.clone(),
            None if length < DIRECT_BYTES_MIN => None,
            None => match self.namespace.object_on(self.ino, fragment) {
                // The first write makes it.
                Err(Errno::NOENT) => None,
                answer => {
                    let object = answer.ok().map(|object| Arc::new(File::from(object)));
                    objects.insert(fragment, object.clone());
                    object
                }
            },
        };
        Some((known?, place))
    }

    fn write_to_object(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let Some((object, place)) = self.object(offset, bytes.len()) else { return Ok(false) };
        object.write_all_at(bytes, place)?;
        let end = offset + u64::try_from(bytes.len()).expect("a request's length fits 64 bits");
        self.namespace.wrote(self.ino, end, attributes(&of_open(&object)?).mtime);
        Ok(true)
    }
}

impl<N: Operations> OpenFile for BufferFile<N> {
    fn attributes(&self) -> Result<Attr> {
        self.namespace.getattr(self.ino)
    }

    // What does not come whole is asked for by the namespace: it knows where the file ends, and what went wrong.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        if let Some(ahead) = &self.ahead {
            let start = usize::try_from(offset).map_or(ahead.len(), |offset| offset.min(ahead.len()));
            let length = buffer.len().min(ahead.len() - start);
            buffer[..length].copy_from_slice(&ahead[start..start + length]);
            return Ok(length);
        }
        if let Some((object, place)) = self.object(offset, buffer.len())
            && object.read_at(buffer, place).is_ok_and(|length| length == buffer.len())
        {
            return Ok(buffer.len());
        }
        self.namespace.read(self.ino, offset, buffer)
    }

    // The space in a buffer's attributes is not measured while nobody writes.
    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        Ok(attr.size > HOLE_BYTES_MIN && self.namespace.next_hole(self.ino, 0, attr.size)? < attr.size)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.namespace.next_data(self.ino, offset)
    }

    // The client caches no file contents that are synced: a read asks the storage nodes.
    fn forget_cached(&self) -> Result<()> {
        Ok(())
    }
}

impl<N: Operations> TargetFile for BufferFile<N> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self.write_to_object(bytes, offset) {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => self.namespace.write(self.ino, offset, bytes),
        }
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.namespace
            .setattr(RequestId::New, self.ino, &SetAttr { size: Some(size), ..SetAttr::default() })
            .map(drop)
    }

    fn sync(&self) -> Result<()> {
        self.namespace.fsync(self.ino)
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.namespace.close(self.ino, self.write)
    }
}

impl<N: Operations> Drop for BufferFile<N> {
    fn drop(&mut self) {
        // A file that is dropped before `close` is one whose copy failed already, or one that was only read.
        let _ = self.close();
    }
}
