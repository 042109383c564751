//! The PFS, with faults on demand.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{Batch, Found, Listing, New, OpenFile, Placement, Result, Tree, Usage, Xattr};
use wire::control::Side;
use wire::data::{Attr, SetAttr};

#[derive(Clone, Default)]
pub struct FaultyPfs {
    /// Files of this size come back with a bit flipped; 0: none.
    pub flipped_size: u64,
    pub shared: Arc<Shared>,
}

/// What may change while a stage runs.
#[derive(Default)]
pub struct Shared {
    /// So many writes fail with ENOSPC; negative: all.
    pub no_room: AtomicI64,
    /// So many listings of a folder are surprised by a file that is made meanwhile; negative: all.
    pub growing: AtomicI64,
    /// Writes so far.
    pub writes: AtomicU64,
    /// Writes hang while this is held.
    pub hang: Mutex<()>,
    /// What happens at one of the writes, by its number.
    pub at_write: Mutex<Option<(u64, Event)>>,
}

/// Something that happens once.
pub type Event = Box<dyn FnOnce() + Send>;

struct FaultyFile {
    file: Box<dyn OpenFile>,
    pfs: FaultyPfs,
}

impl FaultyPfs {
    fn wrap(&self, file: Box<dyn OpenFile>) -> Box<dyn OpenFile> {
        Box::new(FaultyFile { file, pfs: self.clone() })
    }
}

impl Tree for FaultyPfs {
    fn create(&self, path: &Path) -> Result<(Found, Box<dyn OpenFile>)> {
        let (found, file) = Pfs.create(path)?;
        Ok((found, self.wrap(file)))
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        Ok(self.wrap(Pfs.reopen(file)?))
    }

    fn side(&self) -> Side {
        Pfs.side()
    }
    fn show(&self, path: &Path) -> String {
        Pfs.show(path)
    }
    fn placement(&self) -> Placement {
        Pfs.placement()
    }
    fn find(&self, path: &Path) -> Result<Found> {
        Pfs.find(path)
    }
    fn locate(&self, path: &Path) -> Result<Found> {
        Pfs.locate(path)
    }
    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let entries: Vec<_> = Pfs.list(folder)?.collect();
        let left = self.shared.growing.load(Ordering::Relaxed);
        if left != 0 {
            self.shared.growing.fetch_sub(1, Ordering::Relaxed);
            std::fs::write(folder.path.join(format!("late{left}")), b"late").unwrap();
        }
        Ok(Box::new(entries.into_iter()))
    }
    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        Pfs.open(file)
    }
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        Pfs.read_link(link)
    }
    fn make(&self, path: &Path, new: New<'_>) -> Result<Found> {
        Pfs.make(path, new)
    }
    fn link(&self, existing: &Found, path: &Path) -> Result<()> {
        Pfs.link(existing, path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        Pfs.rename(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        Pfs.remove(path)
    }
    fn begin_batch(&self, folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        Pfs.begin_batch(folder)
    }
    fn sync_folder(&self, path: &Path) -> Result<()> {
        Pfs.sync_folder(path)
    }
    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        Pfs.set(entry, change)
    }
    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        Pfs.xattrs(entry)
    }
    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        Pfs.set_xattr(entry, xattr)
    }
    fn usage(&self) -> Option<Usage> {
        Pfs.usage()
    }
}

impl OpenFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let length = self.file.read_at(buffer, offset)?;
        if length > 0 && self.file.attributes()?.size == self.pfs.flipped_size {
            buffer[length - 1] ^= 1;
        }
        Ok(length)
    }

    fn attributes(&self) -> Result<Attr> {
        self.file.attributes()
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let number = self.pfs.shared.writes.fetch_add(1, Ordering::Relaxed);
        let due = self.pfs.shared.at_write.lock().unwrap().take_if(|(at, _)| *at == number);
        due.into_iter().for_each(|(_, event)| event());
        drop(self.pfs.shared.hang.lock().unwrap());
        let left = self.pfs.shared.no_room.load(Ordering::Relaxed);
        if left != 0 {
            self.pfs.shared.no_room.fetch_sub(i64::from(left > 0), Ordering::Relaxed);
            return Err(Errno::NOSPC);
        }
        self.file.write_at(bytes, offset)
    }
    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        self.file.has_holes(attr)
    }
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.file.next_data(offset)
    }
    fn set_size(&self, size: u64) -> Result<()> {
        self.file.set_size(size)
    }
    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
    fn forget_cached(&self) -> Result<()> {
        self.file.forget_cached()
    }
    fn close(&self) -> Result<()> {
        self.file.close()
    }
}
