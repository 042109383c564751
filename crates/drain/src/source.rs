//! The node's side: files on its flash. Nothing is ever changed here.
//!
//! **Invariant:** a file is copied as the version that was found, or not at all: the attributes that the copy begins
//! with are those of the found one, and it is checked against them when it ends.
//!
//! **Invariant:** a file is on the flash before its copy begins: a power loss leaves no older or torn one on the node
//! that would be drained over the copy.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::io::Errno;
use stage::pfs::Pfs;
use stage::tree::{Found, Listing, New, OpenFile, Placement, Result, Tree, Usage, Xattr};
use stage::version::{self, Version};
use wire::control::Side;
use wire::data::{Attr, SetAttr};

/// Files on this node.
pub(crate) struct Source;

impl Tree for Source {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        Pfs.show(path)
    }

    fn placement(&self) -> Placement {
        Pfs.placement()
    }

    // The flash is this host's, and so is its clock.
    fn find(&self, path: &Path) -> Result<Found> {
        let found = Pfs.find(path)?;
        Ok(Found { since: version::since(&found.attr), ..found })
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        Pfs.locate(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        Pfs.list(folder)
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let opened = Pfs.open(file)?;
        settled(opened.sync())?;
        let attr = opened.attributes()?;
        if Version::of(&attr) != Version::of(&file.attr) {
            return Err(Errno::STALE);
        }
        let found = Mutex::new(Some(attr));
        Ok(Box::new(SourceFile { file: opened, found }))
    }

    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        Pfs.read_link(link)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        Pfs.xattrs(entry)
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

/// What was to be on the flash before it is copied is there, or cannot get there: what a flash still gives that takes
/// nothing any more is copied as long as it does.
fn settled(synced: Result<()>) -> Result<()> {
    match synced {
        Err(Errno::ROFS | Errno::INVAL) => Ok(()),
        synced => synced,
    }
}

struct SourceFile {
    file: Box<dyn OpenFile>,
    /// What it was when it was opened, for the first who asks.
    found: Mutex<Option<Attr>>,
}

impl OpenFile for SourceFile {
    fn attributes(&self) -> Result<Attr> {
        let found = self.found.lock().expect("no thread panics with the lock").take();
        found.map_or_else(|| self.file.attributes(), Ok)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
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
