//! The node's side: files on its flash. Nothing is ever changed here.
//!
//! **Invariant:** a file is copied as the version that was found, or not at all: the attributes that the copy begins
//! with are those of the found one, and it is checked against them when it ends.
//!
//! **Invariant:** a file is on the flash before its copy begins: a power loss leaves no older or torn one on the node
//! that would be drained over the copy. A file of which the flash is known to have lost something is never copied,
//! whatever is written to it later: nobody knows which part.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use disk::below::Root;
use model::Ino;
use rustix::io::Errno;
use stage::outside::Outside;
use stage::pfs::{Pfs, PfsFile};
use stage::tree::{self, Found, Listing, LostByDisk, OpenFile, Result, TargetFile, Tree, Xattr};
use stage::version::Version;
use wire::control::Side;
use wire::data::Attr;

use crate::generation::Stamp;

/// Files of which the flash could not write back something, by inode and when that was made. A process to come must
/// know them: the kernel says so once.
pub(crate) trait Losses: Send + Sync {
    /// Whether this is one.
    fn has(&self, file: (u64, Stamp)) -> bool;

    /// It is.
    fn add(&self, file: (u64, Stamp));

    /// The flash takes nothing any more, for this reason.
    fn refuses(&self, errno: Errno);
}

/// Files on this node, below the folder that is drained.
pub(crate) struct Source {
    files: Pfs,
    losses: Arc<dyn Losses>,
    /// Held, by the file's inode, until what a sync reported is in `losses`: who opens the file by another name after
    /// the kernel reported the error is not told again.
    syncing: [Mutex<()>; 16],
}

impl Source {
    /// Those below `top`, which is held.
    pub(crate) fn of(top: &Path, losses: Arc<dyn Losses>) -> Source {
        // One that cannot be reached now is an error of every file.
        let root = Root::hold(top).unwrap_or_else(|_| Root::at(top));
        Source { files: Pfs::below(root), losses, syncing: Default::default() }
    }

    /// Has a file on the flash before it is copied.
    fn settle(&self, file: &PfsFile, ino: Ino) -> Result<()> {
        let id = (u64::from(ino), file.born().unwrap_or_default());
        let lock = &self.syncing[ino.0 as usize % self.syncing.len()];
        let _alone = lock.lock().expect("no thread panics with the lock");
        if self.losses.has(id) {
            return Err(LOST);
        }
        // First: a file system that has gone read-only refuses the sync, and drops what it would have said.
        match file.write_back().and_then(|()| file.sync()) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // What a flash still gives that takes nothing any more is copied as long as it does.
            Err(errno @ Errno::ROFS) => {
                self.losses.refuses(errno);
                Ok(())
            }
            Err(_) => {
                self.losses.add(id);
                Err(LOST)
            }
        }
    }
}

/// What the flash could not write back is lost.
pub(crate) const LOST: Errno = Errno::REMOTEIO;

impl Tree for Source {
    fn side(&self) -> Side {
        Side::Buffer
    }

    fn show(&self, path: &Path) -> String {
        self.files.show(path)
    }

    // It is held.
    fn enter(&self, _folder: &Path) -> std::result::Result<(), Outside> {
        Ok(())
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
        // Something else of that name may be in a folder that is held and was moved.
        let opened = self.files.open_file(file).inspect_err(|_| self.files.let_go())?;
        self.settle(&opened, file.attr.ino)?;
        let attr = opened.attributes()?;
        if Version::of(&attr) != Version::of(&file.attr) {
            // Also where the job has moved the folder that is held, and made another.
            self.files.let_go();
            return Err(Errno::STALE);
        }
        let found = Mutex::new(Some(attr));
        Ok(Box::new(SourceFile { file: opened, found }))
    }
}

impl tree::Source for Source {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        self.files.read_link(link)
    }

    // Whoever copies it has looked.
    fn is_written(&self, _file: &Found) -> Result<bool> {
        Ok(false)
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.files.xattrs(entry)
    }

    fn unkept_xattrs(&self, entry: &Found) -> Result<Vec<Vec<u8>>> {
        self.files.unkept_xattrs(entry)
    }

    // Each is, when it is opened.
    fn flush(&self, _files: &[&Found]) -> Result<Vec<LostByDisk>> {
        Ok(Vec::new())
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
