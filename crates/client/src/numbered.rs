//! Changes under numbers that the caller chooses.
//!
//! The storage nodes do a change once, however often they are asked under the same number. So whoever is asked twice
//! for something, perhaps in two lives of a process, can pass that on.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use wire::data::message::{InodeReply, RenameMode, XattrMode};
use wire::data::{Attr, Creator, FileKind, Reply, Request, SetAttr};

use super::{Client, Result, inode_of};

/// A client whose next change has this number.
#[derive(Clone, Copy)]
pub struct Numbered<'a> {
    client: &'a Client,
    id: u64,
}

impl Client {
    /// For one change, with a number of the caller's choice below 2^63: no other change of the session has it.
    pub fn numbered(&self, id: u64) -> Numbered<'_> {
        Numbered { client: self, id }
    }
}

impl Numbered<'_> {
    /// Changes attributes.
    pub fn setattr(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        if set.size.is_some() {
            self.client.learn_verifiers(ino)?;
            // Noted before: a fragment may cut its object off and lose that again before the home shard has answered.
            self.client.nodes.commits().written(ino);
        }
        let changed = inode_of(self.home(&Request::SetAttr { ino, set: *set })?)?;
        self.client.known.forget(ino);
        self.client.files().attributes_set(ino, set, &changed);
        self.client.with_live_size(changed)
    }

    /// Makes a directory.
    pub fn mkdir(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let made = self.make(parent, name, FileKind::Directory, (mode, 0), b"", creator)?;
        self.client.known.contents(made.ino, std::iter::empty());
        Ok(made)
    }

    /// Makes a named pipe, socket, device node or empty regular file.
    pub fn mknod(
        &self,
        parent: u64,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        rdev: u64,
        creator: &Creator,
    ) -> Result<Attr> {
        if kind == FileKind::Regular {
            let attr = self.create(parent, name, mode, creator)?;
            self.client.close(attr.ino, true)?;
            return Ok(attr);
        }
        self.make(parent, name, kind, (mode, rdev), b"", creator)
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, parent: u64, name: &[u8], target: &[u8], creator: &Creator) -> Result<Attr> {
        self.make(parent, name, FileKind::Symlink, (0o777, 0), target, creator)
    }

    /// Gives an inode one more name.
    pub fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.client.known.put(parent, name);
        let linked = inode_of(self.home(&Request::Link { ino, parent, name: name.to_vec() })?)?;
        self.client.known.forget(parent);
        self.client.with_live_size(linked)
    }

    /// Makes a regular file, which must not exist, and opens it for writing.
    pub fn create(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let request = Request::Create { parent, name: name.to_vec(), mode, creator: *creator };
        Ok(self.add(parent, name, &request)?.attr)
    }

    /// The same; with the file itself, where [`Client::object`] would give it and it comes with the answer.
    pub fn create_with_object(
        &self,
        parent: u64,
        name: &[u8],
        mode: u32,
        creator: &Creator,
    ) -> Result<(Attr, Option<OwnedFd>)> {
        let client = self.client;
        if client.layout.fragments > 1 {
            return Ok((self.create(parent, name, mode, creator)?, None));
        }
        let request = Request::Create { parent, name: name.to_vec(), mode, creator: *creator };
        let mut object = None;
        let made = self.add_by(parent, name, || {
            let numbered = (self.id, &request);
            let (reply, opened) = client.nodes.make_with_descriptor(client.home, numbered, client.id())?;
            object = opened;
            Ok(reply)
        })?;
        Ok((made.attr, object))
    }

    /// Takes a name away from anything but a directory.
    pub fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.remove(&Request::Unlink { parent, name: name.to_vec() })
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        let removed = self.remove(&Request::Rmdir { parent, name: name.to_vec() });
        // The folder may still be open somewhere, and we do not know its inode.
        self.client.known.forget_all();
        removed
    }

    /// Moves a name, or swaps two.
    pub fn rename(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.client.known.put(new_parent, new_name);
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        let renamed = self.home(&Request::Rename { parent, name, new_parent, new_name, mode });
        self.client.known.forget_all();
        renamed.map(drop)
    }

    /// Sets an extended attribute that may, must or must not exist.
    pub fn setxattr(&self, ino: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.home(&Request::SetXattr { ino, name: name.to_vec(), value: value.to_vec(), mode })?;
        self.client.known.forget(ino);
        Ok(())
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, ino: u64, name: &[u8]) -> Result<()> {
        self.home(&Request::RemoveXattr { ino, name: name.to_vec() })?;
        self.client.known.forget(ino);
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        self.client
    }

    /// Asks the home shard.
    pub(super) fn home(&self, request: &Request) -> Result<Reply> {
        self.client.ask_home(self.id, request)
    }

    /// `numbers`: permission bits and device number.
    fn make(
        &self,
        parent: u64,
        name: &[u8],
        kind: FileKind,
        numbers: (u32, u64),
        target: &[u8],
        creator: &Creator,
    ) -> Result<Attr> {
        let ((mode, rdev), creator) = (numbers, *creator);
        let (new_name, target) = (name.to_vec(), target.to_vec());
        let request = Request::Make { parent, name: new_name, kind, mode, rdev, target, creator };
        Ok(self.add(parent, name, &request)?.attr)
    }

    /// Makes an inode with a name.
    fn add(&self, parent: u64, name: &[u8], request: &Request) -> Result<InodeReply> {
        self.add_by(parent, name, || self.home(request))
    }

    /// Adds a name by what `ask` asks the home shard.
    fn add_by(&self, parent: u64, name: &[u8], ask: impl FnOnce() -> Result<Reply>) -> Result<InodeReply> {
        self.client.known.put(parent, name);
        let asked = self.client.known.moment();
        match ask()? {
            Reply::Made { inode, parent } => {
                self.client.known.learn(&parent, asked);
                Ok(inode)
            }
            // Done before, and the folder is gone since.
            Reply::Inode(inode) => Ok(inode),
            _ => Err(Errno::PROTO),
        }
    }

    /// Takes a name away.
    fn remove(&self, request: &Request) -> Result<()> {
        let asked = self.client.known.moment();
        match self.home(request)? {
            Reply::Removed { parent } => {
                self.client.known.learn(&parent, asked);
                Ok(())
            }
            Reply::Done => Ok(()),
            _ => Err(Errno::PROTO),
        }
    }
}
