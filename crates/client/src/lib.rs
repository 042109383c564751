//! File operations on a namespace: which fragment holds what, connections that come back, and errors as errnos.
//!
//! Knows nothing of FUSE: the mount and the stage workers use the same calls. Every method blocks; a storage node that
//! does not answer is tried again for the target's grace period, and the call then fails with EIO.
//!
//! **Invariant:** no bytes and no names are kept back. What [`Client::write`] returned for has been answered by the
//! storage nodes.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

mod attributes;
mod closer;
mod closing;
mod commits;
mod coverage;
mod data;
mod extents;
mod failures;
mod files;
mod known;
mod listing;
mod locks;
mod many;
mod measure;
mod nodes;
mod numbered;
#[cfg(test)]
mod schedules;
mod sharing;
mod sync;
mod syncing;
mod watch;

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::stripe::Layout;
pub use rustix::io::Errno;
use wire::data::hello::{HelloError, Key};
use wire::data::message::{InodeReply, RenameMode, XattrMode};
pub use wire::data::{Attr, Creator, DirEntry, FileKind, FileLock, LockKind, ROOT, SetAttr, Time};
use wire::data::{Reply, Request};
use wire::node::NamespaceTarget;

use closer::Closer;
pub use commits::{Memory, Remembered};
pub use failures::Failures;
use files::Files;
pub use files::Held;
use known::Known;
pub use listing::Listed;
pub use many::Survey;
use nodes::{Ask, Nodes};
pub use numbered::Numbered;
pub use sharing::{Opener, Sharing, Way};

/// The result of a file operation.
pub type Result<T> = std::result::Result<T, Errno>;

/// Why a namespace cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The target's key is not 64 hexadecimal digits.
    #[error("the key of instance {instance} is not 64 hexadecimal digits")]
    Key {
        /// The instance.
        instance: String,
    },
    /// No random numbers for a session id.
    #[error("cannot draw a session id: {0}")]
    Random(getrandom::Error),
    /// The home shard cannot be reached, or turned us away.
    #[error("connect to storage node {node} at {address}")]
    Node {
        /// Its name.
        node: String,
        /// Its address.
        address: String,
        /// Why.
        source: HelloError,
    },
}

/// How full a namespace's instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that fit.
    pub capacity: u64,
    /// Bytes in use.
    pub used: u64,
    /// Inodes of this namespace.
    pub inodes: u64,
}

/// Set in the ids that a client draws itself. The rest starts at random: a client that goes on with the session of
/// another must not use its ids again.
const OWN_IDS: u64 = 1 << 63;

/// A client of one namespace.
pub struct Client {
    layout: Layout,
    home: u32,
    nodes: Nodes,
    /// Where closes are held.
    closer: Option<Arc<Closer>>,
    known: Arc<Known>,
    next_id: AtomicU64,
    /// Held while the home shard is told of losses.
    doubting: Mutex<()>,
}

impl Client {
    /// Connects to the namespace's home shard; the other nodes are connected when they are needed.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(target: &NamespaceTarget) -> std::result::Result<Client, ConnectError> {
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(ConnectError::Random)?;
        let nodes = Nodes::new(target, key_of(target)?, session, Remembered::default());
        let client = Client::over(target, nodes)?;
        client.nodes.check(target.home).map_err(|source| {
            let node = target.nodes.get(target.home as usize);
            ConnectError::Node {
                node: node.map_or_else(|| "?".into(), |node| node.node.clone()),
                address: node.map_or_else(|| "?".into(), |node| node.tcp.clone()),
                source,
            }
        })?;
        Ok(client)
    }

    /// Goes on with the session of a client whose process died, which held `held` and remembered what it had written.
    /// Connects when it is first used.
    ///
    /// # Errors
    /// [`ConnectError`], but not of a node.
    pub fn resume(
        target: &NamespaceTarget,
        session: [u8; 16],
        held: Held,
        remembered: Remembered,
    ) -> std::result::Result<Client, ConnectError> {
        Client::over(target, Nodes::resume(target, key_of(target)?, session, held, remembered))
    }

    fn over(target: &NamespaceTarget, nodes: Nodes) -> std::result::Result<Client, ConnectError> {
        let mut first = [0; 8];
        getrandom::fill(&mut first).map_err(ConnectError::Random)?;
        Ok(Client {
            layout: target.layout,
            home: target.home,
            nodes,
            closer: None,
            known: Arc::new(Known::new(Sharing::Shared)),
            next_id: AtomicU64::new(OWN_IDS | u64::from_le_bytes(first) >> 2),
            doubting: Mutex::default(),
        })
    }

    /// What the storage nodes know this client by; a successor needs it.
    pub fn session(&self) -> [u8; 16] {
        self.nodes.session()
    }

    /// How files are spread.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Changes attributes.
    pub fn setattr(&self, ino: u64, set: &SetAttr) -> Result<Attr> {
        self.numbered(self.id()).setattr(ino, set)
    }

    /// Makes a directory.
    pub fn mkdir(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        self.numbered(self.id()).mkdir(parent, name, mode, creator)
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
        self.numbered(self.id()).mknod(parent, name, kind, mode, rdev, creator)
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, parent: u64, name: &[u8], target: &[u8], creator: &Creator) -> Result<Attr> {
        self.numbered(self.id()).symlink(parent, name, target, creator)
    }

    /// Gives an inode one more name.
    pub fn link(&self, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.numbered(self.id()).link(ino, parent, name)
    }

    /// Makes a regular file, which must not exist, and opens it for writing.
    pub fn create(&self, parent: u64, name: &[u8], mode: u32, creator: &Creator) -> Result<Attr> {
        self.numbered(self.id()).create(parent, name, mode, creator)
    }

    /// Opens a regular file; tells its permission bits. Each open is closed once, with the same `write`.
    pub fn open(&self, ino: u64, write: bool) -> Result<u32> {
        if let Some(mode) = self.files().reopen(ino, write) {
            return Ok(mode);
        }
        Ok(self.inode(Request::Open { ino, write })?.attr.mode)
    }

    /// Whether somebody has the file open for writing, or may have.
    pub fn is_written(&self, ino: u64) -> Result<bool> {
        match self.home(&Request::IsWritten { ino })? {
            Reply::Truth(written) => Ok(written),
            _ => Err(Errno::PROTO),
        }
    }

    /// Takes a name away from anything but a directory.
    pub fn unlink(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.numbered(self.id()).unlink(parent, name)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: u64, name: &[u8]) -> Result<()> {
        self.numbered(self.id()).rmdir(parent, name)
    }

    /// Moves a name; an existing target is replaced.
    pub fn rename(&self, parent: u64, name: &[u8], new_parent: u64, new_name: &[u8]) -> Result<()> {
        self.rename_as(parent, name, new_parent, new_name, RenameMode::Replace)
    }

    /// Moves a name, or swaps two.
    pub fn rename_as(
        &self,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.numbered(self.id()).rename(parent, name, new_parent, new_name, mode)
    }

    /// A symbolic link's text.
    pub fn readlink(&self, ino: u64) -> Result<Vec<u8>> {
        self.bytes(&Request::ReadLink { ino })
    }

    /// An extended attribute's value; ENODATA where there is none.
    pub fn getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        self.bytes(&Request::GetXattr { ino, name: name.to_vec() })
    }

    /// Sets an extended attribute.
    pub fn setxattr(&self, ino: u64, name: &[u8], value: &[u8]) -> Result<()> {
        self.setxattr_as(ino, name, value, XattrMode::Any)
    }

    /// Sets an extended attribute that may, must or must not exist.
    pub fn setxattr_as(&self, ino: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.numbered(self.id()).setxattr(ino, name, value, mode)
    }

    /// Names of extended attributes.
    pub fn listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>> {
        match self.home(&Request::ListXattr { ino })? {
            Reply::Names(names) => Ok(names),
            _ => Err(Errno::PROTO),
        }
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, ino: u64, name: &[u8]) -> Result<()> {
        self.numbered(self.id()).removexattr(ino, name)
    }

    /// The file itself, where the whole of it is one object on this machine and the kernel keeps the capacity.
    ///
    /// # Errors
    /// ENOTSUP where that is not so.
    pub fn object(&self, ino: u64) -> Result<OwnedFd> {
        if self.layout.fragments > 1 {
            return Err(Errno::NOTSUP);
        }
        self.nodes.descriptor(self.home, self.id(), ino)
    }

    /// Where a range of a file lies, if that is in one object: its fragment, and the offset there.
    pub fn place(&self, ino: u64, offset: u64, len: u64) -> Option<(u32, u64)> {
        let piece = self.layout.pieces(ino, offset, len).next()?;
        (piece.len == len).then_some((piece.fragment, piece.object_offset))
    }

    /// The object of a file on one fragment, where that is on this machine and its kernel keeps the capacity. Who
    /// writes to it tells so by [`Client::wrote`].
    ///
    /// # Errors
    /// ENOTSUP where that is not so; ENOENT where nothing was written to it.
    pub fn object_on(&self, ino: u64, fragment: u32) -> Result<OwnedFd> {
        if self.layout.fragments == 1 {
            return self.object(ino);
        }
        self.nodes.descriptor_here(fragment, self.id(), ino)
    }

    /// Bytes up to `end` of a file were written to an object of it, whose time of change is `mtime`.
    pub fn wrote(&self, ino: u64, end: u64, mtime: Time) {
        self.nodes.commits().written(ino);
        // The object that is the whole file tells by itself.
        if self.layout.fragments > 1 {
            let mut files = self.files();
            files.written(ino, 0..end, mtime);
            files.lost_track(ino);
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

    /// Asks the home shard.
    fn home(&self, request: &Request) -> Result<Reply> {
        self.ask_home(self.id(), request)
    }

    fn ask(&self, fragment: u32, request: &Request, payload: &[u8]) -> Result<Reply> {
        self.ask_as(self.id(), fragment, request, payload)
    }

    fn ask_as(&self, id: u64, fragment: u32, request: &Request, payload: &[u8]) -> Result<Reply> {
        self.nodes.call(fragment, id, request, payload, &mut []).map(|(reply, _)| reply)
    }

    /// Asks several fragments at once; the first error counts.
    fn ask_each(&self, requests: impl Iterator<Item = (u32, Request)>) -> Result<Vec<Reply>> {
        let ask = |(fragment, request)| Ask { fragment, id: self.id(), request, payload: &[], into: &mut [] };
        let mut asks: Vec<Ask<'_>> = requests.map(ask).collect();
        let answers = self.nodes.exchange(&mut asks);
        answers.into_iter().map(|answer| answer.map(|(reply, _)| reply)).collect()
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn files(&self) -> std::sync::MutexGuard<'_, Files> {
        self.nodes.files()
    }
}

impl Client {
    /// Ends the session: what it had open is closed, and whatever is asked from now on fails with ENOTCONN. A client
    /// that is dropped does the same; this is for one that others still hold.
    ///
    /// Best effort, within a moment: a home shard that does not hear it ends the session after its grace period.
    pub fn leave(&self) {
        self.closer.iter().for_each(|closer| closer.end());
        let handles = self.files().take_held();
        let last = [(self.id(), Request::Close { handles }), (self.id(), Request::Goodbye)];
        self.nodes.farewell(self.home, &last);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

fn inode_of(reply: Reply) -> Result<InodeReply> {
    match reply {
        Reply::Inode(inode) => Ok(inode),
        _ => Err(Errno::PROTO),
    }
}

fn key_of(target: &NamespaceTarget) -> std::result::Result<Key, ConnectError> {
    Key::from_hex(&target.key).ok_or_else(|| ConnectError::Key { instance: target.instance.clone() })
}
