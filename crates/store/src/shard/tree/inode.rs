//! One inode: what is told of it, and what is set.

use model::Ino;
use wire::data::Attr;

use super::super::acl::{self, Acl};
use super::super::record::AttrChange;
use super::{Body, Directory, Inode};
use crate::extents::BLOCK_BYTES;

impl Inode {
    /// What `stat` tells, as far as the tree knows it.
    pub fn attr(&self, ino: Ino) -> Attr {
        let (size, unit) = match &self.body {
            Body::Symlink(target) => (target.len() as u64, 512),
            Body::Directory(_) => (4096, 512),
            // Without a hole: one that may have some is live.
            Body::None => (self.size, BLOCK_BYTES),
        };
        Attr {
            ino,
            kind: self.kind,
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size,
            blocks: size.div_ceil(unit) * (unit / 512),
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
        }
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, name: &[u8]) -> Option<&[u8]> {
        self.xattrs.as_ref()?.get(name).map(Vec::as_slice)
    }

    /// The directory's entries, if it is one.
    pub fn directory(&self) -> Option<&Directory> {
        match &self.body {
            Body::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub(super) fn set(&mut self, change: &AttrChange) {
        if let Some(mode) = change.mode {
            self.set_mode(mode);
        }
        self.uid = change.uid.unwrap_or(self.uid);
        self.gid = change.gid.unwrap_or(self.gid);
        self.size = change.size.unwrap_or(self.size);
        self.atime = change.atime.unwrap_or(self.atime);
        self.mtime = change.mtime.unwrap_or(self.mtime);
        self.ctime = change.ctime;
    }

    /// Only the fragments know the size, and what was measured before is of no use.
    pub(super) fn doubt_size(&mut self, epoch: u64) {
        (self.epoch, self.live) = (epoch, true);
    }

    pub(super) fn set_mode(&mut self, mode: u32) {
        self.mode = mode;
        let list = self.xattrs.as_mut().and_then(|xattrs| xattrs.get_mut(acl::ACCESS));
        if let Some(list) = list
            && let Ok(acl) = Acl::parse(list)
        {
            *list = acl.with_mode(mode).to_bytes();
        }
    }
}
