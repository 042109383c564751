//! The PFS, but for files of one size, which come back from it with a bit flipped.

use std::ops::Range;
use std::path::{Path, PathBuf};

use stage::pfs::Pfs;
use stage::tree::{Found, Listing, New, OpenFile, Placement, Result, Tree, Usage, Xattr};
use wire::control::Side;
use wire::data::{Attr, SetAttr};

pub struct FlippingPfs {
    /// The size of the files that it spoils, bytes.
    pub size: u64,
}

struct FlippingFile {
    file: Box<dyn OpenFile>,
    size: u64,
}

impl Tree for FlippingPfs {
    fn create(&self, path: &Path) -> Result<(Found, Box<dyn OpenFile>)> {
        let (found, file) = Pfs.create(path)?;
        Ok((found, Box::new(FlippingFile { file, size: self.size })))
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
        Pfs.list(folder)
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

impl OpenFile for FlippingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let length = self.file.read_at(buffer, offset)?;
        if length > 0 && self.file.attributes()?.size == self.size {
            buffer[length - 1] ^= 1;
        }
        Ok(length)
    }

    fn attributes(&self) -> Result<Attr> {
        self.file.attributes()
    }
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
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
