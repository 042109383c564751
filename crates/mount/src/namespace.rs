//! A namespace on storage nodes, as a [`FileSystem`].

use std::os::fd::OwnedFd;
use std::sync::Arc;

use client::{Attr, Client, Creator, DirEntry, Errno, FileKind, FileLock, Memory, SetAttr, Sharing, Usage};
use wire::data::message::{AllocateMode, RenameMode, XattrMode};

use crate::behind::Behind;
use crate::farewell::Farewell;
use crate::filesystem::{FileSystem, NewInode, Result, Seek};
use crate::usage::LastUsage;

/// One mounted namespace.
pub struct Namespace {
    client: Arc<Client>,
    /// Where commit coherence is enough.
    behind: Option<Arc<Behind>>,
    usage: Arc<LastUsage>,
}

impl Namespace {
    /// The namespace that `client` uses; `behind`: small writes may be held back there.
    pub fn new(client: Client, behind: Option<Behind>) -> Namespace {
        let client = client.hold_closes();
        if !client.sharing().owns_contents() {
            // What it locks is locked for other nodes too, and must stay so while it does nothing else.
            client.keep_alive();
        }
        Namespace { client, behind: behind.map(Arc::new), usage: Arc::default() }
    }

    /// Sends what is held back of a file. Returns whether there was anything.
    fn send_held(&self, ino: u64) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.settle(&self.client, ino))
    }

    /// The attributes of a file as this node must see it: with what it holds back.
    fn settled(&self, attr: Attr) -> Result<Attr> {
        if self.send_held(attr.ino) { self.client.getattr(attr.ino) } else { Ok(attr) }
    }

    /// What the storage nodes know this mount by.
    pub fn session(&self) -> [u8; 16] {
        self.client.session()
    }

    /// Who uses it.
    pub fn client(&self) -> Arc<Client> {
        Arc::clone(&self.client)
    }

    /// For the end of the mount.
    pub fn farewell(&self) -> Farewell {
        Farewell::new(Arc::clone(&self.client), self.behind.clone())
    }

    /// Looks at what is there, for what need not be asked then.
    pub fn look_around(&self) {
        self.client.look_around();
        // What cannot be known now will be asked for again.
        let _known = self.usage.ask(&self.client);
    }
}

impl FileSystem for Namespace {
    fn sharing(&self) -> Sharing {
        self.client.sharing()
    }

    fn lookup(&self, parent: u64, name: &[u8]) -> Result<Attr> {
        self.client.lookup(parent, name).and_then(|attr| self.settled(attr))
    }

    fn getattr(&self, ino: u64) -> Result<Attr> {
        self.settle(ino);
        self.client.getattr(ino)
    }

    fn mode(&self, ino: u64) -> Result<u32> {
        self.client.mode(ino)
    }

    fn setattr(&self, id: u64, ino: u64, set: &SetAttr) -> Result<Attr> {
        self.settle(ino);
        self.client.numbered(id).setattr(ino, set)
    }

    fn make(&self, id: u64, parent: u64, name: &[u8], new: &NewInode<'_>) -> Result<Attr> {
        match new.kind {
            FileKind::Directory => self.client.numbered(id).mkdir(parent, name, new.mode, &new.creator),
            FileKind::Symlink => self.client.numbered(id).symlink(parent, name, new.target, &new.creator),
            kind => self.client.numbered(id).mknod(parent, name, kind, new.mode, new.rdev, &new.creator),
        }
    }

    fn create(
        &self,
        id: u64,
        parent: u64,
        name: &[u8],
        mode: u32,
        creator: &Creator,
        with_object: bool,
    ) -> Result<(Attr, Option<OwnedFd>)> {
        let numbered = self.client.numbered(id);
        if with_object {
            return numbered.create_with_object(parent, name, mode, creator);
        }
        Ok((numbered.create(parent, name, mode, creator)?, None))
    }

    fn readlink(&self, ino: u64) -> Result<Vec<u8>> {
        self.client.readlink(ino)
    }

    fn link(&self, id: u64, ino: u64, parent: u64, name: &[u8]) -> Result<Attr> {
        self.client.numbered(id).link(ino, parent, name)
    }

    fn unlink(&self, id: u64, parent: u64, name: &[u8]) -> Result<()> {
        self.client.numbered(id).unlink(parent, name)
    }

    fn rmdir(&self, id: u64, parent: u64, name: &[u8]) -> Result<()> {
        self.client.numbered(id).rmdir(parent, name)
    }

    fn rename(
        &self,
        id: u64,
        parent: u64,
        name: &[u8],
        new_parent: u64,
        new_name: &[u8],
        mode: RenameMode,
    ) -> Result<()> {
        self.client.numbered(id).rename(parent, name, new_parent, new_name, mode)
    }

    fn open(&self, ino: u64, write: bool) -> Result<u32> {
        self.client.open(ino, write)
    }

    fn close(&self, ino: u64, write: bool) -> Result<()> {
        self.settle(ino);
        let closed = self.client.close(ino, write);
        self.behind.iter().for_each(|behind| behind.closed(ino));
        closed
    }

    fn object(&self, ino: u64) -> Result<OwnedFd> {
        self.client.object(ino)
    }

    fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.settle(ino);
        self.client.read(ino, offset, buffer)
    }

    fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.behind {
            Some(behind) => behind.write(&self.client, ino, offset, bytes),
            None => self.client.write(ino, offset, bytes),
        }
    }

    fn append(&self, id: u64, ino: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.sharing().owns_contents() {
            // Only this kernel writes, so the end is where it believes.
            return self.client.write(ino, offset, bytes);
        }
        self.settle(ino);
        self.client.numbered(id).append(ino, bytes).map(drop)
    }

    fn allocate(&self, ino: u64, offset: u64, len: u64, mode: AllocateMode) -> Result<()> {
        self.settle(ino);
        self.client.allocate(ino, offset, len, mode)
    }

    fn seek(&self, ino: u64, offset: u64, to: Seek) -> Result<u64> {
        self.settle(ino);
        let size = self.client.getattr(ino)?.size;
        if offset >= size {
            return Err(Errno::NXIO);
        }
        match to {
            Seek::Hole => self.client.next_hole(ino, offset, size),
            Seek::Data => {
                let data = self.client.next_data(ino, offset)?.ok_or(Errno::NXIO)?;
                if data.start < size { Ok(data.start) } else { Err(Errno::NXIO) }
            }
        }
    }

    fn handle(&self) -> u64 {
        self.client.handle()
    }

    fn remember_in(&self, memory: Arc<dyn Memory>) {
        self.client.remember_in(memory);
    }

    fn settle(&self, ino: u64) {
        self.send_held(ino);
    }

    fn flush(&self, ino: u64, handle: u64) -> Result<()> {
        if self.behind.is_none() {
            return Ok(());
        }
        self.settle(ino);
        self.client.tell(ino, handle)
    }

    fn fsync(&self, ino: u64, handle: u64) -> Result<()> {
        self.settle(ino);
        self.client.fsync_by(ino, handle)
    }

    fn sync_metadata(&self, handle: u64) -> Result<()> {
        self.client.sync_metadata_by(handle)
    }

    fn readdir(&self, ino: u64, cookie: u64) -> Result<Vec<(DirEntry, bool)>> {
        let listed = self.client.list(ino, cookie)?.into_iter();
        let is_held = |ino| self.behind.iter().any(|behind| behind.holds(ino));
        let known = listed.map(|one| (one.is_sized() && !is_held(one.entry.attr.ino), one.entry));
        Ok(known.map(|(is_known, entry)| (entry, is_known)).collect())
    }

    fn usage(&self) -> Result<Usage> {
        self.usage.ask(&self.client)
    }

    fn getxattr(&self, ino: u64, name: &[u8]) -> Result<Vec<u8>> {
        self.client.getxattr(ino, name)
    }

    fn setxattr(&self, id: u64, ino: u64, name: &[u8], value: &[u8], mode: XattrMode) -> Result<()> {
        self.client.numbered(id).setxattr(ino, name, value, mode)
    }

    fn listxattr(&self, ino: u64) -> Result<Vec<Vec<u8>>> {
        self.client.listxattr(ino)
    }

    fn removexattr(&self, id: u64, ino: u64, name: &[u8]) -> Result<()> {
        self.client.numbered(id).removexattr(ino, name)
    }

    fn test_lock(&self, ino: u64, owner: u64, lock: &FileLock) -> Result<Option<FileLock>> {
        self.client.test_lock(ino, owner, lock)
    }

    fn wait_test_lock(
        &self,
        ino: u64,
        owner: u64,
        lock: &FileLock,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<FileLock>> {
        self.client.wait_test_lock(ino, owner, lock, cancelled)
    }

    fn set_lock(&self, ino: u64, owner: u64, lock: &FileLock) -> Result<()> {
        self.client.set_lock(ino, owner, lock)
    }

    fn wait_lock(
        &self,
        ino: u64,
        owner: u64,
        lock: &FileLock,
        blocking: bool,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.client.wait_lock(ino, owner, lock, blocking, cancelled)
    }

    fn release_locks(&self, ino: u64, owner: u64) -> Result<()> {
        self.client.release_locks(ino, owner)
    }
}
