//! The PFS, with faults on demand.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use stage::outside::Outside;
use stage::pfs::Pfs;
use stage::tree::{
    Batch, Found, Held, Listing, LostByDisk, New, OpenFile, Placement, Result, Source, Target, TargetFile,
    Tree, Xattr,
};
use wire::control::Side;
use wire::data::{Attr, SetAttr, Time};

#[derive(Clone, Default)]
pub struct FaultyPfs {
    /// Files of this size come back with a bit flipped; 0: none.
    pub flipped_size: u64,
    pub shared: Arc<Shared>,
    pub real: Pfs,
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
    /// Bytes read so far.
    pub read: AtomicU64,
    /// Writes hang while this is held.
    pub hang: Mutex<()>,
    /// What happens at one of the writes, by its number.
    pub at_write: Mutex<Option<(u64, Event)>>,
    /// What happens to what is about to get its name, the last first.
    pub at_rename: Mutex<Vec<AtRename>>,
    /// What happens after the first read of the source with this name.
    pub after_read: Mutex<Option<(OsString, Event)>>,
    /// So many fsyncs of files fail with EIO, and what they were to bring to the disk is lost; negative: all.
    pub failing_syncs: AtomicI64,
    /// So many fsyncs of folders fail with EIO; negative: all.
    pub failing_folder_syncs: AtomicI64,
    /// Listings that were told of.
    pub lists: AtomicU64,
    /// Is told of each listing, from 0, before it is made.
    pub at_list: Mutex<Option<AtList>>,
    /// So many look-ups through links fail with EIO; negative: all.
    pub failing_looks: AtomicI64,
    /// So many looks at extended attributes fail with EIO; negative: all.
    pub failing_xattrs: AtomicI64,
    /// So many files, links and nodes are made, and what made them fails with EIO; negative: all.
    pub lost_answers: AtomicI64,
    /// Times have no fractions of a second.
    pub whole_seconds: AtomicBool,
}

/// What is told of listings: the number of each, and the folder.
pub type AtList = Box<dyn FnMut(u64, &Path) + Send>;

/// What happens to the entry with this path.
pub type AtRename = Box<dyn FnOnce(&Path) + Send>;

/// Something that happens once.
pub type Event = Box<dyn FnOnce() + Send>;

struct FaultyFile<F: ?Sized> {
    file: Box<F>,
    pfs: FaultyPfs,
    /// The name of a source.
    source: Option<OsString>,
}

/// Whether one of so many faults is due now.
fn is_due(left: &AtomicI64) -> bool {
    let due = left.load(Ordering::Relaxed);
    left.fetch_sub(i64::from(due > 0), Ordering::Relaxed);
    due != 0
}

impl FaultyPfs {
    fn wrap(&self, file: Box<dyn TargetFile>) -> Box<dyn TargetFile> {
        Box::new(FaultyFile { file, pfs: self.clone(), source: None })
    }

    fn answer<T>(&self, made: T) -> Result<T> {
        if is_due(&self.shared.lost_answers) { Err(Errno::IO) } else { Ok(made) }
    }
}

impl Tree for FaultyPfs {
    fn side(&self) -> Side {
        self.real.side()
    }

    fn show(&self, path: &Path) -> String {
        self.real.show(path)
    }

    fn enter(&self, folder: &Path) -> std::result::Result<(), Outside> {
        self.real.enter(folder)
    }

    fn find(&self, path: &Path) -> Result<Found> {
        self.real.find(path)
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        if is_due(&self.shared.failing_looks) {
            return Err(Errno::IO);
        }
        self.real.locate(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        if let Some(at_list) = &mut *self.shared.at_list.lock().unwrap() {
            at_list(self.shared.lists.fetch_add(1, Ordering::Relaxed), &folder.path);
        }
        let entries: Vec<_> = self.real.list(folder)?.collect();
        let left = self.shared.growing.load(Ordering::Relaxed);
        if left != 0 {
            self.shared.growing.fetch_sub(1, Ordering::Relaxed);
            let times = std::fs::FileTimes::new()
                .set_modified(std::fs::metadata(&folder.path).unwrap().modified().unwrap());
            std::fs::write(folder.path.join(format!("late{left}")), b"late").unwrap();
            // As a program does that hides it, or an archiver that keeps times.
            std::fs::File::open(&folder.path).unwrap().set_times(times).unwrap();
        }
        Ok(Box::new(entries.into_iter()))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let source = file.path.file_name().map(OsStr::to_owned);
        let file = self.real.open(file)?;
        Ok(Box::new(FaultyFile { file, pfs: self.clone(), source }))
    }
}

impl Source for FaultyPfs {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.real.read_link(link)
    }

    fn is_written(&self, file: &Found) -> Result<bool> {
        self.real.is_written(file)
    }

    fn flush(&self, files: &[&Found]) -> Result<Vec<LostByDisk>> {
        self.real.flush(files)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        if is_due(&self.shared.failing_xattrs) { Err(Errno::IO) } else { self.real.xattrs(entry) }
    }

    fn unkept_xattrs(&self, entry: &Found) -> Result<Vec<Vec<u8>>> {
        self.real.unkept_xattrs(entry)
    }
}

impl Target for FaultyPfs {
    fn placement(&self) -> Placement {
        self.real.placement()
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        Ok(self.wrap(self.real.reopen(file)?))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let (found, file) = self.real.create(path)?;
        self.answer((found, self.wrap(file)))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
        let is_folder = matches!(new, New::Folder(_));
        let made = self.real.make(path, new)?;
        if is_folder { Ok(made) } else { self.answer(made) }
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<Held> {
        let held = self.real.link(existing, path)?;
        self.answer(held)
    }

    fn rename(&self, folder: &Found, entry: &Found, to: &Path) -> Result<()> {
        let before = self.shared.at_rename.lock().unwrap().pop();
        before.into_iter().for_each(|event| event(&entry.path));
        self.real.rename(folder, entry, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.real.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        self.real.remove_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        if is_due(&self.shared.failing_folder_syncs) { Err(Errno::IO) } else { self.real.sync_folder(path) }
    }

    fn begin_batch(&self, folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        self.real.begin_batch(folder)
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        let cut = |time: Option<Time>| {
            let whole = self.shared.whole_seconds.load(Ordering::Relaxed);
            time.map(|time| if whole { Time { nanos: 0, ..time } } else { time })
        };
        self.real.set(entry, &SetAttr { atime: cut(change.atime), mtime: cut(change.mtime), ..*change })
    }

    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        self.real.set_xattr(entry, xattr)
    }

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        self.real.disinherit(entry, kept)
    }
}

impl<F: OpenFile + ?Sized> OpenFile for FaultyFile<F> {
    fn attributes(&self) -> Result<Attr> {
        self.file.attributes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let length = self.file.read_at(buffer, offset)?;
        self.pfs.shared.read.fetch_add(length as u64, Ordering::Relaxed);
        if let Some(source) = &self.source {
            let due = self.pfs.shared.after_read.lock().unwrap().take_if(|(name, _)| name == source);
            due.into_iter().for_each(|(_, event)| event());
        }
        if length > 0 && self.file.attributes()?.size == self.pfs.flipped_size {
            buffer[length - 1] ^= 1;
        }
        Ok(length)
    }

    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        self.file.has_holes(attr)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.file.next_data(offset)
    }

    fn forget_cached(&self) -> Result<()> {
        self.file.forget_cached()
    }
}

impl<F: TargetFile + ?Sized> TargetFile for FaultyFile<F> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let number = self.pfs.shared.writes.fetch_add(1, Ordering::Relaxed);
        let due = self.pfs.shared.at_write.lock().unwrap().take_if(|(at, _)| *at == number);
        due.into_iter().for_each(|(_, event)| event());
        drop(self.pfs.shared.hang.lock().unwrap());
        if is_due(&self.pfs.shared.no_room) {
            return Err(Errno::NOSPC);
        }
        self.file.write_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.file.set_size(size)
    }

    fn sync(&self) -> Result<()> {
        if is_due(&self.pfs.shared.failing_syncs) {
            // As a kernel does whose write-back failed: the pages are clean, and only the device knows what they held.
            let size = self.file.attributes()?.size;
            self.file.set_size(0)?;
            self.file.set_size(size)?;
            return Err(Errno::IO);
        }
        self.file.sync()
    }

    fn close(&self) -> Result<()> {
        self.file.close()
    }
}
