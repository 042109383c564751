//! Names and attributes, which the home shard has; a client that is exclusive knows some of them.

use std::os::fd::OwnedFd;

use model::Ino;
use rustix::io::Errno;
use wire::data::connection::encode;
use wire::data::message::{InodeReply, RenameMode, XattrMode};
use wire::data::{Attr, Creator, DirEntry, FileKind, NAME_BYTES_MAX, Reply, Request, SetAttr};

use super::{Client, Names, Node, RequestId, Result, inode_of};

impl Names for Client {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        if name.len() <= NAME_BYTES_MAX && self.known.is_absent(parent, name) {
            return Err(Errno::NOENT);
        }
        let found = self.inode(Request::Lookup { parent, name: name.to_vec() })?;
        self.with_live_size(found)
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        let asked = self.known.moment();
        if let Some(attr) = self.known.attr(ino) {
            return Ok(attr);
        }
        let found = self.inode(Request::GetAttr { ino })?;
        self.known.learn(&found.attr, asked);
        self.with_live_size(found)
    }

    fn setattr(&self, id: RequestId, ino: Ino, set: &SetAttr) -> Result<Attr> {
        if set.size.is_some() {
            self.learn_verifiers(ino)?;
            // Noted before: a fragment may cut its object off and lose that again before the home shard has answered.
            self.nodes.commits().written(ino);
        }
        let changed = inode_of(self.change(id, &Request::SetAttr { ino, set: *set })?)?;
        self.known.forget(ino);
        self.files().attributes_set(ino, set, &changed);
        self.with_live_size(changed)
    }

    fn mkdir(&self, id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let made =
            self.make(id, (parent, name), Node { kind: FileKind::Directory, mode, rdev: 0 }, b"", creator)?;
        self.known.contents(made.ino, std::iter::empty());
        Ok(made)
    }

    fn mknod(&self, id: RequestId, parent: Ino, name: &[u8], node: &Node, creator: &Creator) -> Result<Attr> {
        if node.kind == FileKind::Regular {
            let attr = self.create(id, parent, name, node.mode, creator)?;
            self.close(attr.ino, true)?;
            return Ok(attr);
        }
        self.make(id, (parent, name), *node, b"", creator)
    }

    fn symlink(
        &self,
        id: RequestId,
        parent: Ino,
        name: &[u8],
        target: &[u8],
        creator: &Creator,
    ) -> Result<Attr> {
        self.make(id, (parent, name), Node { kind: FileKind::Symlink, mode: 0o777, rdev: 0 }, target, creator)
    }

    fn link(&self, id: RequestId, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.known.put(parent, name);
        let linked = inode_of(self.change(id, &Request::Link { ino, parent, name: name.to_vec() })?)?;
        self.known.forget(parent);
        self.with_live_size(linked)
    }

    fn create(&self, id: RequestId, parent: Ino, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        let request = Request::Create { parent, name: name.to_vec(), mode, creator: *creator };
        let made = self.add(parent, name, || self.change(id, &request))?;
        self.nodes.commits().made(made.attr.ino);
        Ok(made.attr)
    }

    fn open(&self, ino: Ino, write: bool) -> Result<u32> {
        if let Some(mode) = self.files().reopen(ino, write) {
            return Ok(mode);
        }
        Ok(self.inode(Request::Open { ino, write })?.attr.mode)
    }

    fn close(&self, ino: Ino, write: bool) -> Result<()> {
        Client::close(self, ino, write)
    }

    fn unlink(&self, id: RequestId, parent: Ino, name: &[u8]) -> Result<()> {
        self.remove(id, &Request::Unlink { parent, name: name.to_vec() })
    }

    fn rmdir(&self, id: RequestId, parent: Ino, name: &[u8]) -> Result<()> {
        let removed = self.remove(id, &Request::Rmdir { parent, name: name.to_vec() });
        // The folder may still be open somewhere, and we do not know its inode.
        self.known.forget_all();
        removed
    }

    fn rename(
        &self,
        id: RequestId,
        parent: Ino,
        name: &[u8],
        new_parent: Ino,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.known.put(new_parent, new_name);
        let (name, new_name) = (name.to_vec(), new_name.to_vec());
        let renamed = self.change(id, &Request::Rename { parent, name, new_parent, new_name, mode });
        self.known.forget_all();
        renamed.map(drop)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.bytes(&Request::ReadLink { ino })
    }

    fn readdir(&self, ino: Ino, cookie: u64) -> Result<Vec<DirEntry>> {
        self.list(ino, cookie)?.into_iter().map(|listed| self.sized(listed)).collect()
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.bytes(&Request::GetXattr { ino, name: name.to_vec() })
    }

    fn setxattr(&self, id: RequestId, ino: Ino, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.change(id, &Request::SetXattr { ino, name: name.to_vec(), value: value.to_vec(), mode })?;
        self.known.forget(ino);
        Ok(())
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        match self.home(&Request::ListXattr { ino })? {
            Reply::Names(names) => Ok(names),
            _ => Err(Errno::PROTO),
        }
    }

    fn removexattr(&self, id: RequestId, ino: Ino, name: &[u8]) -> Result<()> {
        self.change(id, &Request::RemoveXattr { ino, name: name.to_vec() })?;
        self.known.forget(ino);
        Ok(())
    }

    fn sync_metadata(&self) -> Result<()> {
        self.sync_all(&[], Vec::new())?;
        self.nodes.commits().check(&[])
    }
}

impl Client {
    /// An inode's permissions, which only the home shard is asked for: no node needs to say where the file ends.
    pub fn mode(&self, ino: Ino) -> Result<u32> {
        if let Some(attr) = self.known.attr(ino) {
            return Ok(attr.mode);
        }
        Ok(self.inode(Request::GetAttr { ino })?.attr.mode)
    }

    /// Whether nobody may do what `request` asks the home shard for; nothing is done.
    ///
    /// # Errors
    /// What such a user would be told.
    pub fn may_nobody(&self, request: &Request) -> Result<()> {
        self.home(&Request::Squashed { request: encode(request) }).map(drop)
    }

    /// As [`Names::create`]; with the file itself, where [`Client::object`] would give it and it comes with the answer.
    pub fn create_with_object(
        &self,
        id: RequestId,
        parent: Ino,
        name: &[u8],
        mode: u32,
        creator: &Creator,
    ) -> Result<(Attr, Option<OwnedFd>)> {
        if self.layout.fragments > 1 {
            return Ok((self.create(id, parent, name, mode, creator)?, None));
        }
        let request = Request::Create { parent, name: name.to_vec(), mode, creator: *creator };
        let mut object = None;
        let made = self.add(parent, name, || {
            let numbered = (self.number(id), &request);
            let (reply, opened) = self.nodes.make_with_descriptor(self.home, numbered, self.id())?;
            object = opened;
            Ok(reply)
        })?;
        self.nodes.commits().made(made.attr.ino);
        Ok((made.attr, object))
    }

    /// Asks the home shard for a change.
    pub(super) fn change(&self, id: RequestId, request: &Request) -> Result<Reply> {
        self.ask_home(self.number(id), request)
    }

    fn number(&self, id: RequestId) -> u64 {
        match id {
            RequestId::New => self.id(),
            RequestId::Given(number) => number,
        }
    }

    fn make(
        &self,
        id: RequestId,
        (parent, name): (Ino, &[u8]),
        Node { kind, mode, rdev }: Node,
        target: &[u8],
        creator: &Creator,
    ) -> Result<Attr> {
        let (new_name, target, creator) = (name.to_vec(), target.to_vec(), *creator);
        let request = Request::Make { parent, name: new_name, kind, mode, rdev, target, creator };
        Ok(self.add(parent, name, || self.change(id, &request))?.attr)
    }

    /// Adds a name by what `ask` asks the home shard.
    fn add(&self, parent: Ino, name: &[u8], ask: impl FnOnce() -> Result<Reply>) -> Result<InodeReply> {
        self.known.put(parent, name);
        let asked = self.known.moment();
        match ask()? {
            Reply::Made { inode, parent } => {
                self.known.learn(&parent, asked);
                Ok(inode)
            }
            // Done before, and the folder is gone since.
            Reply::Inode(inode) => Ok(inode),
            _ => Err(Errno::PROTO),
        }
    }

    /// Takes a name away.
    fn remove(&self, id: RequestId, request: &Request) -> Result<()> {
        let asked = self.known.moment();
        match self.change(id, request)? {
            Reply::Removed { parent } => {
                self.known.learn(&parent, asked);
                Ok(())
            }
            Reply::Done => Ok(()),
            _ => Err(Errno::PROTO),
        }
    }

    fn inode(&self, request: Request) -> Result<InodeReply> {
        inode_of(self.home(&request)?)
    }

    fn bytes(&self, request: &Request) -> Result<Vec<u8>> {
        match self.home(request)? {
            Reply::Bytes(bytes) => Ok(bytes),
            _ => Err(Errno::PROTO),
        }
    }
}
