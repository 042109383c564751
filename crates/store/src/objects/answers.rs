//! What requests about one object are answered with.

use std::io;

use model::Ino;
use wire::data::{Reply, Time};

use super::Objects;
use crate::measure::Measure;

impl Objects {
    /// What `Measure` is answered with.
    ///
    /// # Errors
    /// As [`Objects::measure`].
    pub fn tell_measure(&self, ino: Ino) -> io::Result<Reply> {
        let nothing = Reply::Object { size: 0, mtime: Time::default(), blocks: 0 };
        let told = |Measure { size, mtime, blocks, .. }| Reply::Object { size, mtime, blocks };
        Ok(self.measure_judged(ino)?.map_or(nothing, told))
    }

    /// What `NextData` is answered with.
    ///
    /// # Errors
    /// As [`Objects::next_data`].
    pub fn tell_next_data(&self, ino: Ino, offset: u64) -> io::Result<Reply> {
        Ok(Reply::Range(self.next_data(ino, offset)?.map(|range| (range.start, range.end))))
    }
}
