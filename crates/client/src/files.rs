//! The files that this client has open, and what it wrote into each: what the home shard is told when they are closed,
//! and again after it was restarted.

use std::collections::HashMap;

use wire::data::message::{InodeReply, Written};
use wire::data::{SetAttr, Time};

/// Every open file by its inode.
#[derive(Debug, Default)]
pub struct Files {
    files: HashMap<u64, File>,
}

#[derive(Clone, Copy, Debug, Default)]
struct File {
    readers: u32,
    writers: u32,
    /// Truncation count that `end` belongs to.
    epoch: u64,
    /// End of the furthest write since then; `None`: nothing written.
    end: Option<u64>,
    /// Storage nodes' time of the last write, or the time that was set since.
    mtime: Time,
    /// The time was set after the last write: the objects' own times say less.
    mtime_set: bool,
}

impl Files {
    /// A handle was opened.
    pub fn opened(&mut self, ino: u64, write: bool, epoch: u64) {
        let file = self.files.entry(ino).or_insert_with(|| File { epoch, ..File::default() });
        *(if write { &mut file.writers } else { &mut file.readers }) += 1;
    }

    /// A handle was closed.
    pub fn closed(&mut self, ino: u64, write: bool) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        let handles = if write { &mut file.writers } else { &mut file.readers };
        *handles = handles.saturating_sub(1);
        if file.writers == 0 {
            file.end = None;
        }
        if (file.readers, file.writers) == (0, 0) {
            self.files.remove(&ino);
        }
    }

    /// Bytes up to `end` were written at `mtime`.
    pub fn written(&mut self, ino: u64, end: u64, mtime: Time) {
        if let Some(file) = self.files.get_mut(&ino) {
            file.end = Some(file.end.unwrap_or(0).max(end));
            file.mtime = if file.mtime_set { mtime } else { file.mtime.max(mtime) };
            file.mtime_set = false;
        }
    }

    /// Attributes were set; the answer was `changed`.
    pub fn attributes_set(&mut self, ino: u64, set: &SetAttr, changed: &InodeReply) {
        let Some(file) = self.files.get_mut(&ino) else { return };
        if set.size.is_some() {
            (file.end, file.epoch) = (None, changed.epoch);
        }
        if set.size.is_some() || set.mtime.is_some() {
            (file.mtime, file.mtime_set) = (changed.attr.mtime, true);
        }
    }

    /// What to say when a writer closes.
    pub fn report(&self, ino: u64) -> Option<Written> {
        let file = self.files.get(&ino)?;
        Some(Written { end: file.end?, mtime: file.mtime, epoch: file.epoch })
    }

    /// Whether the shard's time is newer than any write of ours.
    pub fn mtime_set(&self, ino: u64) -> bool {
        self.files.get(&ino).is_some_and(|file| file.mtime_set)
    }

    /// What to say to a shard that was restarted: (inode, readers, writers).
    pub fn opens(&self) -> Vec<(u64, u32, u32)> {
        self.files.iter().map(|(&ino, file)| (ino, file.readers, file.writers)).collect()
    }
}
