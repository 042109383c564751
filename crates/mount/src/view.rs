//! A namespace on storage nodes as this mount has it: with what it holds back. Every operation that could tell whether
//! something was held back is here; the others are the client's.

use std::sync::Arc;

use client::{Attr, Client, Contents as _, DirEntry, Errno, Names as _, RequestId, Result, SetAttr, Usage};
use model::{Ino, SessionId};
use wire::data::message::AllocateMode;

use crate::behind::Behind;
use crate::farewell::Farewell;
use crate::usage::LastUsage;

/// Where `lseek` goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// To data.
    Data,
    /// To a hole.
    Hole,
}

/// One mounted namespace.
pub struct MountView {
    client: Arc<Client>,
    /// Where commit coherence is enough.
    behind: Option<Arc<Behind>>,
    usage: Arc<LastUsage>,
}

impl MountView {
    /// The namespace that `client` uses; `behind`: small writes may be held back there.
    pub fn new(client: Client, behind: Option<Behind>) -> MountView {
        let client = client.hold_closes();
        client.look_out_for_losses();
        client.confirm_with_age();
        if !client.sharing().owns_contents() {
            // What it locks is locked for other nodes too, and must stay so while it does nothing else.
            client.keep_alive();
        }
        MountView { client, behind: behind.map(Arc::new), usage: Arc::default() }
    }

    /// Sends what is held back of a file. Returns whether there was anything.
    fn send_held(&self, ino: Ino) -> bool {
        self.behind.as_ref().is_some_and(|behind| behind.settle(&self.client, ino))
    }

    /// The attributes of a file as this node must see it: with what it holds back.
    fn settled(&self, attr: Attr) -> Result<Attr> {
        if self.send_held(attr.ino) { self.client.getattr(attr.ino) } else { Ok(attr) }
    }

    /// What the storage nodes know this mount by.
    pub fn session(&self) -> SessionId {
        self.client.session()
    }

    /// For what is the same whatever is held back.
    pub fn client(&self) -> &Arc<Client> {
        &self.client
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

    /// The inode behind a name.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.client.lookup(parent, name).and_then(|attr| self.settled(attr))
    }

    /// An inode's attributes.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.settle(ino);
        self.client.getattr(ino)
    }

    /// Changes attributes.
    pub fn setattr(&self, id: RequestId, ino: Ino, set: &SetAttr) -> Result<Attr> {
        self.settle(ino);
        self.client.setattr(id, ino, set)
    }

    /// Closes one handle.
    pub fn close(&self, ino: Ino, write: bool) -> Result<()> {
        self.settle(ino);
        let closed = self.client.close(ino, write);
        self.behind.iter().for_each(|behind| behind.closed(ino));
        closed
    }

    /// Reads; fewer bytes at the end.
    pub fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.settle(ino);
        self.client.read(ino, offset, buffer)
    }

    /// Writes all of `bytes`, or holds them back.
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        match &self.behind {
            Some(behind) => behind.write(&self.client, ino, offset, bytes),
            None => self.client.write(ino, offset, bytes),
        }
    }

    /// Writes all of `bytes` at the file's end, wherever that is; the kernel believes at `offset`.
    pub fn append(&self, id: RequestId, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        if self.client.sharing().owns_contents() {
            // Only this kernel writes, so the end is where it believes.
            return self.client.write(ino, offset, bytes);
        }
        self.settle(ino);
        self.client.append(id, ino, bytes).map(drop)
    }

    /// Allocates, frees or zeroes a range.
    pub fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: AllocateMode) -> Result<()> {
        self.settle(ino);
        self.client.allocate(ino, offset, len, mode)
    }

    /// The next data or hole at or after `offset`; ENXIO past the end.
    pub fn seek(&self, ino: Ino, offset: u64, to: Seek) -> Result<u64> {
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

    /// Sends what is held back of a file. An error is told at fsync or close.
    pub fn settle(&self, ino: Ino) {
        self.send_held(ino);
    }

    /// A program closes one of its handles: errors of what was held back are told.
    pub fn flush(&self, ino: Ino, handle: u64) -> Result<()> {
        if self.behind.is_none() {
            return Ok(());
        }
        self.settle(ino);
        self.client.tell(ino, handle)
    }

    /// Makes a file survive a power loss.
    pub fn fsync(&self, ino: Ino, handle: u64) -> Result<()> {
        self.settle(ino);
        self.client.fsync_by(ino, handle)
    }

    /// A page of entries after `cookie`, without `.` and `..`, each with whether its attributes are what `stat` tells:
    /// where they would have to be asked for, they are not.
    pub fn readdir(&self, ino: Ino, cookie: u64) -> Result<Vec<(DirEntry, bool)>> {
        let listed = self.client.list(ino, cookie)?.into_iter();
        let is_held = |ino| self.behind.iter().any(|behind| behind.holds(ino));
        let known = listed.map(|one| (one.is_sized() && !is_held(one.entry.attr.ino), one.entry));
        Ok(known.map(|(is_known, entry)| (entry, is_known)).collect())
    }

    /// How full it is, within bounded time.
    pub fn usage(&self) -> Result<Usage> {
        self.usage.ask(&self.client)
    }
}
