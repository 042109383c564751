//! One object is copied to the mirror: what differs there, beside changes of the same object.
//!
//! What is the same on both nodes is left alone there, with its checksums.
//!
//! **Invariant:** of what the mirror has, nothing is thrown away before all of the object was read here, checked by
//! what checksums it has.

use std::io;
use std::ops::Range;
use std::time::Duration;

use model::Ino;
use rustix::io::Errno;
use wire::data::message::AllocateMode;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request, Time};

use super::Filling;
use crate::objects::Objects;

/// What the mirror has of an object.
pub(super) struct There {
    pub size: u64,
    pub mtime: Time,
    /// It is what its checksums say, or is told not to be when it is read.
    pub sealed: bool,
    /// Its checksums were lost.
    pub unverified: bool,
}

/// Why an object is not copied.
pub(super) enum Failure {
    /// The mirror does not have it as it was sealed.
    Damaged(io::Error),
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        let (Failure::Damaged(error) | Failure::Other(error)) = failure;
        error
    }
}

/// The parts of an object that are compared, in order: where it is a hole on both nodes, nothing is. Such a hole needs
/// no hold: a change of it is made on both.
struct Parts {
    at: u64,
    size: u64,
    /// Where the mirror has data next, as of the last time that it was asked; empty where it has none.
    there: Option<Range<u64>>,
}

impl Parts {
    /// The next part; `here` and `there` tell where the nodes have data next.
    fn next(
        &mut self,
        here: impl FnOnce(u64) -> Result<Option<Range<u64>>, Failure>,
        there: impl FnOnce(u64) -> Result<Option<Range<u64>>, Failure>,
    ) -> Result<Option<Range<u64>>, Failure> {
        if self.at >= self.size {
            return Ok(None);
        }
        let start_here = here(self.at)?.map_or(u64::MAX, |data| data.start);
        if self.there.as_ref().is_none_or(|there| there.end <= self.at) {
            self.there = Some(there(self.at)?.unwrap_or(u64::MAX..u64::MAX));
        }
        let start_there = self.there.as_ref().map_or(self.at, |there| there.start);
        let start = start_here.min(start_there).max(self.at);
        if start >= self.size {
            return Ok(None);
        }
        let whole = PAYLOAD_BYTES_MAX as u64;
        self.at = self.size.min((start / whole + 1) * whole);
        Ok(Some(start..self.at))
    }
}

impl Filling<'_> {
    /// Makes the mirror of an object what the object is. One part after the other, as it may be changed meanwhile.
    pub(super) fn copy(&mut self, objects: &Objects, ino: Ino) -> io::Result<()> {
        if objects.is_lost(ino)? {
            // What the mirror may still have of it was not used either.
            return Ok(());
        }
        // What a sync failed on reads there as it was written, and may not be on the disk: the next sync says nothing.
        let unsynced = self.mirror.take_unsynced(ino);
        let brought = match self.bring(objects, ino, unsynced) {
            // It is made anew there. Nothing that only the mirror has is thrown away: what is damaged here is taken
            // from there before.
            Err(Failure::Damaged(_)) if !unsynced => self.bring(objects, ino, true),
            brought => brought,
        };
        if unsynced && brought.is_err() {
            self.mirror.note_unsynced(ino);
        }
        Ok(brought?)
    }

    fn bring(&mut self, objects: &Objects, ino: Ino, anew: bool) -> Result<(), Failure> {
        let (mut whole, mut there) = (self.hold(ino, 0..u64::MAX)?, self.there(ino)?);
        if anew || there.unverified {
            // Whoever changes it need not wait for that.
            drop(whole);
            objects.read_all(ino)?;
            (whole, there) = (self.hold(ino, 0..u64::MAX)?, self.there(ino)?);
        }
        // One that is gone here is gone since it was judged, and there as well.
        let Some(size) = objects.measure(ino)?.map(|found| found.size) else { return Ok(()) };
        if anew || there.unverified {
            self.begin_anew(objects, ino)?;
            self.ask(&Request::Destroy { ino })?;
        }
        if anew || there.unverified || there.size != size {
            self.ask(&Request::Resize { ino, size })?;
        }
        drop(whole);
        let mut parts = Parts { at: 0, size, there: None };
        while let Some(part) =
            parts.next(|at| Ok(objects.next_data(ino, at)?), |at| self.next_data(ino, at))?
        {
            let held = self.hold(ino, part.clone())?;
            let copied = self.bring_part(objects, ino, part);
            drop(held);
            copied?;
        }
        let synced = self.link.ask_within(&Request::Sync { ino }, &[], Duration::MAX);
        let synced = synced.map(drop).map_err(|error| self.failure(error));
        if synced.is_err() {
            self.mirror.note_unsynced(ino);
        }
        synced
    }

    /// The part is held. What was cut off meanwhile is not there any more, on either node.
    fn bring_part(&mut self, objects: &Objects, ino: Ino, part: Range<u64>) -> Result<(), Failure> {
        let mut at = part.start;
        while at < part.end {
            let Some(size) = objects.measure(ino)?.map(|found| found.size) else { return Ok(()) };
            let end = part.end.min(size);
            if at >= end {
                return Ok(());
            }
            let data = objects.next_data(ino, at)?.unwrap_or(end..end);
            let (start, stop) = (data.start.clamp(at, end), data.end.clamp(at, end));
            if at < start && self.has_data(ino, at..start)? {
                let hole =
                    Request::Allocate { ino, offset: at, len: start - at, mode: AllocateMode::PunchHole };
                self.ask(&hole)?;
            }
            if start < stop {
                let len = usize::try_from(stop - start).expect("a part fits a payload");
                let mut bytes = vec![0; len];
                let read = objects.read(ino, start, &mut bytes)?;
                let is_same =
                    self.has_data(ino, start..stop)? && self.read(ino, start, read)? == bytes[..read];
                if !is_same {
                    self.write(ino, start, &bytes[..read])?;
                }
            }
            at = stop.max(start);
        }
        Ok(())
    }

    /// Whether the mirror has anything but a hole there.
    fn has_data(&mut self, ino: Ino, range: Range<u64>) -> Result<bool, Failure> {
        Ok(self.next_data(ino, range.start)?.is_some_and(|found| found.start < range.end))
    }

    /// Where the mirror has data next.
    fn next_data(&mut self, ino: Ino, offset: u64) -> Result<Option<Range<u64>>, Failure> {
        match self.ask(&Request::NextData { ino, offset })? {
            Reply::Range(found) => Ok(found.map(|(start, end)| start..end)),
            _ => Err(Failure::Other(io::ErrorKind::InvalidData.into())),
        }
    }

    /// What the mirror has of an object.
    pub(super) fn there(&mut self, ino: Ino) -> Result<There, Failure> {
        match self.ask(&Request::DescribeMirrored { ino })? {
            Reply::Mirrored { size, mtime, sealed, unverified } => {
                Ok(There { size, mtime, sealed, unverified })
            }
            _ => Err(Failure::Other(io::ErrorKind::InvalidData.into())),
        }
    }

    /// The mirror's bytes.
    pub(super) fn read(&mut self, ino: Ino, offset: u64, len: usize) -> Result<Vec<u8>, Failure> {
        let len = u32::try_from(len).expect("a part fits a payload");
        let read = self.link.read(ino, offset, len);
        read.map_err(|error| self.failure(error))
    }

    fn write(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.link.ask(&Request::Write { ino, offset }, bytes);
        written.map(drop).map_err(|error| self.failure(error))
    }

    pub(super) fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let answer = self.link.ask(request, &[]);
        answer.map_err(|error| self.failure(error))
    }

    /// EIO of a node that answers is about the object.
    fn failure(&self, error: io::Error) -> Failure {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<io::Error>());
        let errno = inner.unwrap_or(&error).raw_os_error();
        match errno == Some(Errno::IO.raw_os_error()) && !self.link.is_broken() {
            true => Failure::Damaged(error),
            false => Failure::Other(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The parts that are compared where the nodes have data in these ranges, and how often the mirror was asked.
    fn parts(size: u64, here: &[Range<u64>], there: &[Range<u64>]) -> (Vec<Range<u64>>, usize) {
        let next = |data: &[Range<u64>], at: u64| {
            let found = data.iter().find(|range| range.end > at);
            Ok(found.map(|range| range.start.max(at)..range.end))
        };
        let asked = Cell::new(0);
        let there = |at| {
            asked.set(asked.get() + 1);
            next(there, at)
        };
        let mut parts = Parts { at: 0, size, there: None };
        let mut all = Vec::new();
        while let Ok(Some(part)) = parts.next(|at| next(here, at), there) {
            all.push(part);
        }
        (all, asked.get())
    }

    #[test]
    fn what_is_a_hole_on_both_nodes_is_not_compared() {
        const MIB: u64 = 1 << 20;
        let end = 1 << 62;
        let last = end - 3..end;
        assert_eq!(parts(end, std::slice::from_ref(&last), &[]), (vec![last.clone()], 1));
        let (both, here) = (5 * MIB..8 * MIB, 1 << 50..(1 << 50) + 9);
        let (found, asked) = parts(end, &[both.clone(), here], &[both, last.clone()]);
        let expected = [5 * MIB..6 * MIB, 6 * MIB..7 * MIB, 7 * MIB..8 * MIB, 1 << 50..(1 << 50) + MIB, last];
        assert_eq!((found, asked), (expected.to_vec(), 2));
        assert_eq!(parts(end, &[], &[]), (Vec::new(), 1));
    }
}
