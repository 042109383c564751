//! A tree whose operations are noted while they are under way: see [`Stalls`](crate::stalls::Stalls).

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{LostByDisk, Usage};
use model::Ino;
use wire::control::Side;
use wire::data::{Attr, SetAttr};

use crate::lost::Lost;
use crate::monitor::Monitor;
use crate::outside::Outside;
use crate::tree::{
    Batch, Found, Held, Listing, New, OpenFile, Opened, Placement, Result, Source, Survey, Target,
    TargetFile, Tree, Xattr,
};

/// A tree, watched.
pub(crate) struct Watched<T: ?Sized> {
    tree: Arc<T>,
    monitor: Arc<Monitor>,
}

/// A file of it.
struct WatchedFile<F: ?Sized> {
    file: Box<F>,
    monitor: Arc<Monitor>,
    side: Side,
    path: PathBuf,
}

/// A batch in it.
struct WatchedBatch {
    batch: Box<dyn Batch>,
    monitor: Arc<Monitor>,
    side: Side,
    folder: PathBuf,
}

impl<T: Tree + ?Sized> Watched<T> {
    pub(crate) fn new(tree: Arc<T>, monitor: &Arc<Monitor>) -> Watched<T> {
        Watched { tree, monitor: monitor.clone() }
    }

    fn watch<R>(&self, operation: &'static str, path: &Path, run: impl FnOnce() -> R) -> R {
        self.monitor.stalls.watch(self.side(), operation, path, run)
    }

    fn file<F: ?Sized>(&self, path: &Path, file: Box<F>) -> Box<WatchedFile<F>> {
        let (monitor, side) = (self.monitor.clone(), self.side());
        Box::new(WatchedFile { file, monitor, side, path: path.to_owned() })
    }
}

impl<T: Tree + ?Sized> Tree for Watched<T> {
    fn side(&self) -> Side {
        self.tree.side()
    }

    fn show(&self, path: &Path) -> String {
        self.tree.show(path)
    }

    fn enter(&self, folder: &Path) -> std::result::Result<(), Outside> {
        self.watch("look up", folder, || self.tree.enter(folder))
    }

    fn find(&self, path: &Path) -> Result<Found> {
        self.watch("look up", path, || self.tree.find(path))
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        self.watch("look up", path, || self.tree.locate(path))
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        let path = folder.path.clone();
        let mut entries = self.watch("list", &path, || self.tree.list(folder))?;
        Ok(Box::new(std::iter::from_fn(move || self.watch("list", &path, || entries.next()))))
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let opened = self.watch("open for reading", &file.path, || self.tree.open(file))?;
        Ok(self.file(&file.path, opened))
    }
}

impl<T: Source + ?Sized> Source for Watched<T> {
    fn known(&self, ino: Ino, path: &Path) -> Result<Found> {
        self.watch("look up", path, || self.tree.known(ino, path))
    }

    fn open_all(&self, files: &[&Found]) -> Option<Vec<Result<Opened>>> {
        let first = files.first()?;
        let opened = self.watch("open files for reading, as", &first.path, || self.tree.open_all(files))?;
        let watched = |(file, opened): (&&Found, Result<Opened>)| {
            opened.map(|(attr, opened)| -> Opened { (attr, self.file(&file.path, opened)) })
        };
        Some(files.iter().zip(opened).map(watched).collect())
    }

    fn survey(&self, files: &[&Found]) -> Option<Vec<Survey>> {
        let first = files.first()?;
        self.watch("look at files, as", &first.path, || self.tree.survey(files))
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.watch("read link", &link.path, || self.tree.read_link(link))
    }

    fn is_written(&self, file: &Found) -> Result<bool> {
        self.watch("look at", &file.path, || self.tree.is_written(file))
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.watch("read extended attributes of", &entry.path, || self.tree.xattrs(entry))
    }

    fn unkept_xattrs(&self, entry: &Found) -> Result<Vec<Vec<u8>>> {
        self.watch("list extended attributes of", &entry.path, || self.tree.unkept_xattrs(entry))
    }

    fn flush(&self, files: &[&Found]) -> Result<Vec<LostByDisk>> {
        let Some(first) = files.first() else { return Ok(Vec::new()) };
        self.watch("sync files, as", &first.path, || self.tree.flush(files))
    }

    fn unverified(&self) -> Result<HashMap<Ino, Lost>> {
        self.watch("ask what was lost below", Path::new(""), || self.tree.unverified())
    }
}

impl<T: Target + ?Sized> Target for Watched<T> {
    fn placement(&self) -> Placement {
        self.tree.placement()
    }

    fn reopen(&self, file: &Found) -> Result<Box<dyn TargetFile>> {
        let opened = self.watch("open for writing", &file.path, || self.tree.reopen(file))?;
        Ok(self.file(&file.path, opened))
    }

    fn create(&self, path: &Path) -> Result<(Found, Box<dyn TargetFile>)> {
        let (found, file) = self.watch("make file", path, || self.tree.create(path))?;
        Ok((found, self.file(path, file)))
    }

    fn make(&self, path: &Path, new: New<'_>) -> Result<(Found, Held)> {
        self.watch("make", path, || self.tree.make(path, new))
    }

    fn link(&self, existing: &Found, path: &Path) -> Result<Held> {
        self.watch("make hard link", path, || self.tree.link(existing, path))
    }

    fn rename(&self, folder: &Found, entry: &Found, to: &Path) -> Result<()> {
        self.watch("rename to", to, || self.tree.rename(folder, entry, to))
    }

    fn settle_taken(&self, path: &Path) -> Result<()> {
        self.watch("put back", path, || self.tree.settle_taken(path))
    }

    fn miss_taken(&self, path: &Path, ino: Ino, is_sure: bool) {
        self.tree.miss_taken(path, ino, is_sure);
    }

    fn undecided(&self) -> Vec<(PathBuf, Ino)> {
        self.tree.undecided()
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.watch("remove", path, || self.tree.remove(path))
    }

    fn remove_folder(&self, path: &Path) -> Result<()> {
        self.watch("remove", path, || self.tree.remove_folder(path))
    }

    fn sync_folder(&self, path: &Path) -> Result<()> {
        self.watch("fsync folder", path, || self.tree.sync_folder(path))
    }

    fn begin_batch(&self, folder: &Found) -> Result<Option<Box<dyn Batch>>> {
        let batch = self.watch("begin to write files in", &folder.path, || self.tree.begin_batch(folder))?;
        let (monitor, side, folder) = (self.monitor.clone(), self.side(), folder.path.clone());
        Ok(batch.map(|batch| -> Box<dyn Batch> { Box::new(WatchedBatch { batch, monitor, side, folder }) }))
    }

    fn set(&self, entry: &Found, change: &SetAttr) -> Result<()> {
        self.watch("set attributes of", &entry.path, || self.tree.set(entry, change))
    }

    fn set_xattr(&self, entry: &Found, xattr: &Xattr) -> Result<()> {
        self.watch("set an extended attribute of", &entry.path, || self.tree.set_xattr(entry, xattr))
    }

    fn disinherit(&self, entry: &Found, kept: &[Xattr]) -> Result<()> {
        self.watch("look at access lists of", &entry.path, || self.tree.disinherit(entry, kept))
    }

    fn usage(&self) -> Option<Usage> {
        self.tree.usage()
    }
}

impl Batch for WatchedBatch {
    fn sync(&self, files: &[&Found]) -> Result<()> {
        self.monitor.stalls.watch(self.side, "sync files in", &self.folder, || self.batch.sync(files))
    }
}

impl<F: ?Sized> WatchedFile<F> {
    fn watch<T>(&self, operation: &'static str, run: impl FnOnce() -> T) -> T {
        self.monitor.stalls.watch(self.side, operation, &self.path, run)
    }
}

impl<F: OpenFile + ?Sized> OpenFile for WatchedFile<F> {
    fn attributes(&self) -> Result<Attr> {
        self.watch("look at", || self.file.attributes())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.watch("read", || self.file.read_at(buffer, offset))
    }

    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        self.watch("look for holes in", || self.file.has_holes(attr))
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.watch("look for holes in", || self.file.next_data(offset))
    }

    fn forget_cached(&self) -> Result<()> {
        self.watch("drop the cache of", || self.file.forget_cached())
    }
}

impl<F: TargetFile + ?Sized> TargetFile for WatchedFile<F> {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.watch("write", || self.file.write_at(bytes, offset))
    }

    fn set_size(&self, size: u64) -> Result<()> {
        self.watch("set the size of", || self.file.set_size(size))
    }

    fn begin_sync(&self, range: Range<u64>) {
        self.watch("begin to sync", || self.file.begin_sync(range));
    }

    fn sync(&self) -> Result<()> {
        self.watch("fsync", || self.file.sync())
    }

    fn close(&self) -> Result<()> {
        self.watch("close", || self.file.close())
    }
}
