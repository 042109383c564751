//! Which inodes the kernel reads and writes without us.
//!
//! The kernel takes one backing file for an inode, and once it has one, every further open must name the same: so there
//! is one backing id for each inode, shared by its opens and counted, and it is in the table before the open is
//! answered (a release can overtake the answer).
//!
//! A backing file may turn out not to be the file any more: the node's file system failed, and another took its place.
//! The kernel keeps the old one for as long as it has a handle, and cannot be told otherwise. So nothing that is
//! written through it is confirmed from then on, and the file is not opened before all its handles are closed.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, Handed};
use fuse::backing::BackingId;
use model::Ino;
use rustix::io::Errno;

/// Opens of different inodes should not wait for each other.
const SHARDS: usize = 16;

/// The kernel says so at once.
const CLOSED_WITHIN: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Backing files by inode.
#[derive(Debug)]
pub struct Passthrough {
    usable: AtomicBool,
    inodes: [Mutex<HashMap<Ino, Backing>>; SHARDS],
}

#[derive(Debug)]
struct Backing {
    id: BackingId,
    opens: u32,
    /// `None`: it is not the file any more.
    handed: Option<Handed>,
}

impl Backing {
    /// Makes sure that what the kernel has is the file.
    ///
    /// # Errors
    /// EIO where it is not.
    fn check(&mut self, ino: Ino, client: &Client) -> client::Result<Handed> {
        let Some(handed) = &mut self.handed else { return Err(Errno::IO) };
        if client.is_the_file(ino, handed)? {
            return Ok(*handed);
        }
        self.handed = None;
        tracing::error!(
            %ino,
            "the storage node's file system failed while the kernel wrote to this file, and another took its place: \
             what is written through handles from before is lost, their fsyncs fail, and so does opening the file \
             until they are closed"
        );
        Err(Errno::IO)
    }
}

/// Whether the next file may well be passed through: a lack of descriptors, memory or room, or a node that is away.
fn is_passing(error: &io::Error) -> bool {
    use Errno as E;
    let passing = [E::MFILE, E::NFILE, E::NOMEM, E::IO, E::STALE, E::AGAIN, E::NOSPC, E::DQUOT];
    E::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

impl Passthrough {
    /// An empty table; `usable`: the kernel can do it.
    pub fn new(usable: bool) -> Passthrough {
        Passthrough { usable: AtomicBool::new(usable), inodes: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Whether to try it at all.
    pub fn usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed)
    }

    /// Takes over the backing file of an inode, and `opens` opens, from a former process.
    pub fn adopt(&self, ino: Ino, id: BackingId, opens: u32, handed: Handed) {
        self.shard(ino).insert(ino, Backing { id, opens, handed: Some(handed) });
    }

    /// Counts one more open of `ino`, registering its backing file with `register` if it has none yet. The backing id,
    /// with the object; `None`: the file is not passed through.
    ///
    /// # Errors
    /// EIO: the kernel has a backing file that is not the file any more.
    pub fn open(
        &self,
        ino: Ino,
        client: &Client,
        register: impl FnOnce() -> io::Result<(BackingId, Handed)>,
    ) -> client::Result<Option<(u32, Handed)>> {
        let mut inodes = self.once_dead_is_closed(ino);
        if let Some(backing) = inodes.get_mut(&ino) {
            let handed = backing.check(ino, client)?;
            backing.opens += 1;
            return Ok(Some((backing.id.number(), handed)));
        }
        if !self.usable() {
            return Ok(None);
        }
        match register() {
            Ok((id, handed)) => {
                let number = id.number();
                inodes.insert(ino, Backing { id, opens: 1, handed: Some(handed) });
                return Ok(Some((number, handed)));
            }
            Err(error) if is_passing(&error) => {
                tracing::warn!(%ino, %error, "cannot pass a file through to the kernel");
            }
            Err(error) => {
                // Neither the kind of volume nor our rights change while we are mounted: no use asking for each file.
                if self.usable.swap(false, Ordering::Relaxed) {
                    tracing::info!(reason = %error, "cannot pass files through to the kernel");
                }
            }
        }
        Ok(None)
    }

    /// Who closed the last handle of a file that is dead may open it anew before the kernel says that it was closed.
    fn once_dead_is_closed(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Backing>> {
        let until = Instant::now() + CLOSED_WITHIN;
        loop {
            let inodes = self.shard(ino);
            let is_dead = inodes.get(&ino).is_some_and(|backing| backing.handed.is_none());
            if !is_dead || Instant::now() > until {
                return inodes;
            }
            drop(inodes);
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Makes sure that what the kernel has of the file, if it has it, is the file.
    ///
    /// # Errors
    /// EIO where it is not; the errno with which the node does not say so.
    pub fn check(&self, ino: Ino, client: &Client) -> client::Result<()> {
        self.shard(ino).get_mut(&ino).map_or(Ok(()), |backing| backing.check(ino, client).map(drop))
    }

    /// Whether the inode has a backing file now.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.shard(ino).contains_key(&ino)
    }

    /// Counts one open less; `write`: through which the kernel may have written.
    pub fn release(&self, ino: Ino, write: bool, client: &Client) {
        let mut inodes = self.shard(ino);
        if let Some(backing) = inodes.get_mut(&ino) {
            if write {
                // Where nobody can say whether it is the file, nobody knows where that went.
                let inherited = backing.handed.is_some_and(|handed| handed.is_inherited());
                let handed = if inherited { backing.check(ino, client).ok() } else { backing.handed };
                client.kernel_wrote(ino, handed);
            }
            backing.opens -= 1;
            if backing.opens == 0 {
                inodes.remove(&ino);
            }
        }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Backing>> {
        let shard = usize::try_from(u64::from(ino) % SHARDS as u64).expect("below 16");
        self.inodes[shard].lock().expect("no thread panics while it holds backing files")
    }
}
