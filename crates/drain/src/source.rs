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
use stage::pfs::{Pfs, PfsFile};
use stage::tree::{self, Found, Listing, OpenFile, Result, TargetFile, Tree, Xattr};
use stage::version::{self, Version};
use wire::control::Side;
use wire::data::Attr;

/// Files on this node, below the folder that is drained.
pub(crate) struct Source(Pfs);

impl Source {
    /// Those below `top`, which is held.
    pub(crate) fn of(top: &Path) -> Source {
        let files = Pfs::default();
        // One that cannot be reached now is an error of every file.
        let _later = files.enter(top);
        Source(files)
    }
}

impl Tree for Source {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        self.0.show(path)
    }

    // The flash is this host's, and so is its clock.
    fn find(&self, path: &Path) -> Result<Found> {
        let found = self.0.find(path)?;
        Ok(Found { since: version::since(&found.attr), ..found })
    }

    fn locate(&self, path: &Path) -> Result<Found> {
        self.0.locate(path)
    }

    fn list<'a>(&'a self, folder: &Found) -> Result<Listing<'a>> {
        self.0.list(folder)
    }

    fn open(&self, file: &Found) -> Result<Box<dyn OpenFile>> {
        let opened = self.0.open_file(file)?;
        settled(opened.sync())?;
        let attr = opened.attributes()?;
        if Version::of(&attr) != Version::of(&file.attr) {
            return Err(Errno::STALE);
        }
        let found = Mutex::new(Some(attr));
        Ok(Box::new(SourceFile { file: opened, found }))
    }
}

impl tree::Source for Source {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.0.read_link(link)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.0.xattrs(entry)
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
    file: PfsFile,
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
