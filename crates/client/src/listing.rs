//! Listing directories: names, which only the home is asked for, and what `stat` tells beside them.

use model::Ino;
use rustix::io::Errno;
use wire::data::{DirEntry, Reply, Request};

use super::{Client, Result};

/// An entry of a directory, as its home has it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// What the home knows.
    pub entry: DirEntry,
    /// Of a file that somebody may be writing, whose size, space and time of change only its nodes know: how often its
    /// time was set.
    unsized_times: Option<u64>,
}

impl Listed {
    /// Whether the home knows the size, the space and the time of change.
    pub fn is_sized(&self) -> bool {
        self.unsized_times.is_none()
    }
}

impl Client {
    /// A page of a directory's entries after `cookie` (0: from the start), without `.` and `..`; empty at the end. Only
    /// the home is asked: a node that is away, and what it has of files, holds up nobody who wants to know names.
    pub fn list(&self, ino: Ino, cookie: u64) -> Result<Vec<Listed>> {
        let Reply::Entries { entries, live } = self.home(&Request::ReadDir { ino, cookie })? else {
            return Err(Errno::PROTO);
        };
        let listed =
            |(entry, (live, times)): (_, (bool, _))| Listed { entry, unsized_times: live.then_some(times) };
        Ok(entries.into_iter().zip(live).map(listed).collect())
    }

    /// An entry with the size of its file.
    pub(super) fn sized(&self, Listed { mut entry, unsized_times }: Listed) -> Result<DirEntry> {
        unsized_times.map_or(Ok(()), |times| self.measure_into(&mut entry.attr, times))?;
        Ok(entry)
    }
}
