//! The node's side: files on its flash, read through the [`Throttle`]. Nothing is ever changed here.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{Found, Listing, New, OpenFile, Placement, Result, Tree, Usage, Xattr};
use wire::control::Side;
use wire::data::{Attr, SetAttr};

use crate::throttle::Throttle;

/// Files on this node.
pub struct Source {
    files: Pfs,
    throttle: Arc<Throttle>,
}

impl Source {
    /// Reads no faster than `throttle` lets it.
    pub fn new(throttle: Arc<Throttle>) -> Source {
        Source { files: Pfs, throttle }
    }
}

impl Tree for Source {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        self.files.show(path)
    }

    fn placement(&self) -> Placement {
        self.files.placement()
    }

    fn find(&self, path: &Path) -> Result<Found> {
        self.files.find(path)
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        self.files.locate(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        self.files.list(folder)
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let file = self.files.open(file)?;
        Ok(Box::new(SourceFile { file, throttle: Arc::clone(&self.throttle) }))
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.files.read_link(link)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.files.xattrs(entry)
    }

    fn usage(&self) -> Option<Usage> {
        None
    }

    fn reopen(&self, _: &Found) -> Result<Box<dyn OpenFile>> {
        Err(Errno::ROFS)
    }

    fn create(&self, _: &Path) -> Result<(Found, Box<dyn OpenFile>)> {
        Err(Errno::ROFS)
    }

    fn make(&self, _: &Path, _: New<'_>) -> Result<Found> {
        Err(Errno::ROFS)
    }

    fn link(&self, _: &Found, _: &Path) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn remove(&self, _: &Path) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn sync_folder(&self, _: &Path) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn set(&self, _: &Found, _: &SetAttr) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn set_xattr(&self, _: &Found, _: &Xattr) -> Result<()> {
        Err(Errno::ROFS)
    }
}

struct SourceFile {
    file: Box<dyn OpenFile>,
    throttle: Arc<Throttle>,
}

impl OpenFile for SourceFile {
    fn attributes(&self) -> Result<Attr> {
        self.file.attributes()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.throttle.pass(buffer.len());
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn has_holes(&self, attr: &Attr) -> Result<bool> {
        self.file.has_holes(attr)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>> {
        self.file.next_data(offset)
    }

    fn set_size(&self, _: u64) -> Result<()> {
        Err(Errno::ROFS)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn forget_cached(&self) -> Result<()> {
        self.file.forget_cached()
    }

    fn close(&self) -> Result<()> {
        self.file.close()
    }
}
