//! Which inodes the kernel reads and writes without us.
//!
//! The kernel takes one backing file for an inode, and once it has one, every further open must name the same: so there
//! is one backing id for each inode, shared by its opens and counted, and it is in the table before the open is
//! answered (a release can overtake the answer).

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use fuse::backing::BackingId;
use model::Ino;
use rustix::io::Errno;

/// Opens of different inodes should not wait for each other.
const SHARDS: usize = 16;

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
}

/// Whether the next file may well be passed through: a lack of descriptors or memory, or a node that is away.
fn is_passing(error: &io::Error) -> bool {
    let passing = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::STALE, Errno::AGAIN];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

impl Passthrough {
    /// An empty table; `usable`: the kernel can do it.
    pub fn new(usable: bool) -> Passthrough {
        Passthrough { usable: AtomicBool::new(usable), inodes: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Whether it is tried at all.
    pub fn usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed)
    }

    /// Takes over the backing file of an inode, and `opens` opens, from a former process.
    pub fn adopt(&self, ino: Ino, id: BackingId, opens: u32) {
        self.shard(ino).insert(ino, Backing { id, opens });
    }

    /// Counts one more open of `ino`, registering its backing file with `register` if it has none yet. The backing id;
    /// `None`: the file is not passed through.
    pub fn open(&self, ino: Ino, register: impl FnOnce() -> io::Result<BackingId>) -> Option<u32> {
        if !self.usable() {
            return None;
        }
        let mut inodes = self.shard(ino);
        if let Some(backing) = inodes.get_mut(&ino) {
            backing.opens += 1;
            return Some(backing.id.number());
        }
        match register() {
            Ok(id) => {
                let number = id.number();
                inodes.insert(ino, Backing { id, opens: 1 });
                Some(number)
            }
            Err(error) if is_passing(&error) => {
                tracing::warn!(%ino, %error, "a file is not passed through to the kernel");
                None
            }
            Err(error) => {
                // Neither the kind of volume nor our rights change while we are mounted: no use asking for each file.
                if self.usable.swap(false, Ordering::Relaxed) {
                    tracing::info!(reason = %error, "files are not passed through to the kernel");
                }
                None
            }
        }
    }

    /// Whether the inode has a backing file now.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.shard(ino).contains_key(&ino)
    }

    /// Counts one open less.
    pub fn release(&self, ino: Ino) {
        let mut inodes = self.shard(ino);
        if let Some(backing) = inodes.get_mut(&ino) {
            backing.opens -= 1;
            if backing.opens == 0 {
                inodes.remove(&ino);
            }
        }
    }

    fn shard(&self, ino: Ino) -> std::sync::MutexGuard<'_, HashMap<Ino, Backing>> {
        let shard = usize::try_from(u64::from(ino) % SHARDS as u64).expect("below 16");
        self.inodes[shard].lock().expect("no thread panics while it holds backing files")
    }
}
