//! What a stage-in copies from.

use std::fs;
use std::path::{Path, PathBuf};

use client::LostByDisk;
use disk::below::by_descriptor;

use super::{ENTRY, Pfs, errno, xattrs};
use crate::tree::{Found, Result, Source, Xattr};

impl Source for Pfs {
    fn read_link(&self, link: &Found) -> Result<PathBuf> {
        fs::read_link(self.place(&link.path)?.path()).map_err(errno)
    }

    // Nobody knows who has a file open elsewhere; that one changes shows.
    fn is_written(&self, _file: &Found) -> Result<bool> {
        Ok(false)
    }

    // Nothing like that is known.
    fn flush(&self, _files: &[&Found]) -> Result<Vec<LostByDisk>> {
        Ok(Vec::new())
    }

    fn xattrs(&self, entry: &Found) -> Result<Vec<Xattr>> {
        self.with_open(entry, xattrs::read)
    }

    fn unkept_xattrs(&self, entry: &Found) -> Result<Vec<Vec<u8>>> {
        self.with_open(entry, xattrs::unkept)
    }
}

impl Pfs {
    fn with_open<T>(&self, entry: &Found, read: impl Fn(&Path) -> Result<T>) -> Result<T> {
        if let Some(file) = self.open.get(entry) {
            return read(&by_descriptor(&file));
        }
        // Whatever is there now: whether that is another is found out once it is copied.
        read(&by_descriptor(&self.opened(&entry.path, ENTRY)?))
    }
}
