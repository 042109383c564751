//! Inodes as the log keeps them.
//!
//! **Invariant:** an inode that was kept and made again is the same, but for what only one that is live has.

use model::Ino;

use super::super::record::{InodeRecord, Kind};
use super::folder::Folder;
use super::{Body, Directory, Inode};

impl Inode {
    pub(super) fn to_record(&self) -> InodeRecord {
        let (target, parent, next_cookie) = match &self.body {
            Body::None => (Vec::new(), Ino(0), 0),
            Body::Symlink(target) => (target.to_vec(), Ino(0), 0),
            Body::Directory(directory) => (Vec::new(), directory.parent, directory.next_cookie),
        };
        InodeRecord {
            kind: self.kind.into(),
            mode: self.mode,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            rdev: self.rdev,
            size: self.size,
            live: self.live,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            target,
            parent,
            next_cookie,
            xattrs: self
                .xattrs
                .iter()
                .flat_map(|xattrs| xattrs.iter())
                .map(|(n, v)| (n.clone(), v.clone()))
                .collect(),
        }
    }
}

pub(super) fn inode_from(record: InodeRecord) -> Inode {
    let body = match record.kind {
        Kind::Symlink => Body::Symlink(record.target.into()),
        Kind::Directory => Body::Directory(Box::new(Directory {
            parent: record.parent,
            next_cookie: record.next_cookie,
            ..Directory::default()
        })),
        _ => Body::None,
    };
    Inode {
        kind: record.kind.into(),
        mode: record.mode,
        nlink: record.nlink,
        uid: record.uid,
        gid: record.gid,
        rdev: record.rdev,
        size: record.size,
        live: record.live,
        atime: record.atime,
        mtime: record.mtime,
        ctime: record.ctime,
        epoch: 0,
        times: 0,
        xattrs: (!record.xattrs.is_empty()).then(|| record.xattrs.into_iter().collect()),
        folder: Folder::default(),
        body,
    }
}
