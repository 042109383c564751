//! Which inodes the kernel reads and writes without us.
//!
//! The kernel takes one backing file for an inode, and once it has one, every further open must name the same: so there
//! is one backing id for each inode, shared by its opens and counted, and it is in the table before the open is answered
//! (a release can overtake the answer).
//!
//! Who closes a file often opens it again at once: a few backing files that nobody uses stay registered. A file that was
//! removed keeps its space so long, so the kernel's word that it forgot the inode ends that.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use fuse::backing::BackingId;

/// Opens of different inodes should not wait for each other.
const SHARDS: usize = 16;

/// Backing files that are kept for the next open, in each shard.
const IDLE_MAX: usize = 4;

/// Backing files by inode.
#[derive(Debug)]
pub struct Passthrough {
    usable: AtomicBool,
    shards: [Mutex<Shard>; SHARDS],
}

#[derive(Debug, Default)]
struct Shard {
    inodes: HashMap<u64, Backing>,
    /// Inodes without opens, the longest unused first.
    idle: VecDeque<u64>,
}

#[derive(Debug)]
struct Backing {
    id: BackingId,
    opens: u32,
}

impl Passthrough {
    /// An empty table; `usable`: the kernel can do it.
    pub fn new(usable: bool) -> Passthrough {
        Passthrough { usable: AtomicBool::new(usable), shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// Whether it is tried at all.
    pub fn usable(&self) -> bool {
        self.usable.load(Ordering::Relaxed)
    }

    /// Takes over the backing file of an inode, and `opens` opens, from a former process.
    pub fn adopt(&self, ino: u64, id: BackingId, opens: u32) {
        self.shard(ino).inodes.insert(ino, Backing { id, opens });
    }

    /// Counts one more open of `ino`, registering its backing file with `register` if it has none yet. The backing id;
    /// `None`: the file is not passed through.
    pub fn open(&self, ino: u64, register: impl FnOnce() -> io::Result<BackingId>) -> Option<u32> {
        if !self.usable() {
            return None;
        }
        let mut shard = self.shard(ino);
        if let Some(backing) = shard.inodes.get_mut(&ino) {
            backing.opens += 1;
            let number = backing.id.number();
            shard.idle.retain(|idle| *idle != ino);
            return Some(number);
        }
        match register() {
            Ok(id) => {
                let number = id.number();
                shard.inodes.insert(ino, Backing { id, opens: 1 });
                Some(number)
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

    /// Whether the inode has a backing file that is in use.
    pub fn is_open(&self, ino: u64) -> bool {
        self.shard(ino).inodes.get(&ino).is_some_and(|backing| backing.opens > 0)
    }

    /// Counts one open less.
    pub fn release(&self, ino: u64) {
        let mut shard = self.shard(ino);
        let Some(backing) = shard.inodes.get_mut(&ino) else { return };
        backing.opens -= 1;
        if backing.opens == 0 {
            shard.idle.push_back(ino);
            shard.keep(IDLE_MAX);
        }
    }

    /// The inode is not used any more.
    pub fn forget(&self, ino: u64) {
        let mut shard = self.shard(ino);
        if let Some(at) = shard.idle.iter().position(|idle| *idle == ino) {
            shard.idle.remove(at);
            shard.inodes.remove(&ino);
        }
    }

    /// A name was taken away: the inode behind it may not be used any more.
    pub fn forget_idle(&self) {
        self.shards.iter().for_each(|shard| lock(shard).keep(0));
    }

    fn shard(&self, ino: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::try_from(ino % SHARDS as u64).expect("below 16")])
    }
}

impl Shard {
    /// Lets go of all but the `most` that were used last.
    fn keep(&mut self, most: usize) {
        while self.idle.len() > most {
            let unused = self.idle.pop_front();
            unused.and_then(|ino| self.inodes.remove(&ino));
        }
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().expect("no thread panics while it holds backing files")
}
