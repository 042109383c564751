//! Reading and writing: file ranges cut into pieces of objects.

use std::ops::Range;
use std::os::fd::OwnedFd;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::message::AllocateMode;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request, Time};

use super::commits::NO_HANDLE;
use super::{Ask, Client, Contents, Names, RequestId, Result};

impl Contents for Client {
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = buffer.len();
        let mut rest = &mut *buffer;
        let mut asks = Vec::new();
        for part in self.parts(ino, offset, len) {
            let (into, after) = rest.split_at_mut(part.len);
            rest = after;
            let request = Request::Read { ino, offset: part.object_offset, len: part.len_u32() };
            asks.push(Ask { fragment: part.fragment, id: self.id(), request, payload: &[], into });
        }
        let answers = self.nodes.exchange(&mut asks);
        let (mut start, mut short) = (0, None);
        for (ask, answer) in asks.iter_mut().zip(answers) {
            let (_, read) = answer?;
            if read < ask.into.len() {
                ask.into[read..].fill(0);
                short.get_or_insert(start + read);
            }
            start += ask.into.len();
        }
        self.files().exists(ino)?;
        match short {
            None => Ok(len),
            // The object is the whole file: it ends where the file does.
            Some(end) if self.layout.width == 1 => Ok(end),
            // Some other object may go on: the file's size decides.
            Some(_) => {
                let size = self.getattr(ino)?.size;
                Ok(len.min(index(size.saturating_sub(offset))))
            }
        }
    }

    fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut asks = Vec::new();
        let mut ranges = Vec::new();
        let mut rest = bytes;
        for part in self.parts(ino, offset, bytes.len()) {
            let (payload, after) = rest.split_at(part.len);
            rest = after;
            let request = Request::Write { ino, offset: part.object_offset };
            asks.push(Ask { fragment: part.fragment, id: self.id(), request, payload, into: &mut [] });
            ranges.push(part.file_offset..part.file_offset + part.len as u64);
        }
        let answers = self.nodes.exchange(&mut asks);
        // All of them: after one that failed, others are there.
        let mut written = Ok(());
        for ((ask, answer), range) in asks.iter().zip(answers).zip(ranges) {
            let result = match answer {
                Err(Errno::NOSPC) if written.is_ok() => {
                    self.store_once_more(ask.fragment, &ask.request, ask.payload)
                }
                answer => answer.and_then(|(reply, _)| stored(reply)),
            };
            written = written.and(self.note(ino, [range], result));
        }
        written
    }

    fn append(&self, id: RequestId, ino: Ino, bytes: &[u8]) -> Result<u64> {
        let size = if self.layout.fragments == 1 { 0 } else { self.getattr(ino)?.size };
        let request = Request::ReserveEnd { ino, size, len: bytes.len() as u64 };
        let Reply::Offset(offset) = self.change(id, &request)? else { return Err(Errno::PROTO) };
        self.write(ino, offset, bytes)?;
        Ok(offset)
    }

    fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: AllocateMode) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        for fragment in self.layout.fragments_of(ino) {
            let place = |at| self.layout.object_size(ino, fragment, at).unwrap_or(0);
            // A range of the file is one range of each object, because objects are packed densely.
            let (start, stop) = (place(offset), place(end));
            if start < stop {
                let request = Request::Allocate { ino, offset: start, len: stop - start, mode };
                let grown = if mode == AllocateMode::Grow { end } else { 0 };
                let allocated = self.store(fragment, &request, &[]);
                let noted = self.note(ino, std::iter::once(0..grown), allocated);
                self.files().lost_track(ino);
                noted?;
            }
        }
        Ok(())
    }

    fn next_data(&self, ino: Ino, offset: u64) -> Result<Option<Range<u64>>> {
        let runs = self.next_runs(ino, offset)?;
        let found = runs.into_iter().filter_map(|(fragment, start, run)| {
            let run = run?;
            let at = run.start.max(start);
            let file_offset = self.file_offset(ino, fragment, at);
            let piece = self.layout.pieces(ino, file_offset, run.end - at).next()?;
            Some(file_offset..file_offset + piece.len)
        });
        Ok(found.min_by_key(|range| range.start))
    }

    fn next_hole(&self, ino: Ino, offset: u64, size: u64) -> Result<u64> {
        let runs = self.next_runs(ino, offset)?;
        let holes = runs.into_iter().map(|(fragment, start, run)| {
            let hole = run.filter(|run| run.start <= start).map_or(start, |run| run.end);
            self.file_offset(ino, fragment, hole)
        });
        Ok(holes.min().unwrap_or(offset).clamp(offset, size))
    }

    fn fsync(&self, ino: Ino) -> Result<()> {
        let synced = self.sync_all(&[ino], self.syncs_of(ino));
        self.nodes.commits().check(&[])?;
        self.tell_after(synced, ino, NO_HANDLE)
    }

    fn is_written(&self, ino: Ino) -> Result<bool> {
        match self.home(&Request::IsWritten { ino })? {
            Reply::Truth(written) => Ok(written),
            _ => Err(Errno::PROTO),
        }
    }

    fn place(&self, ino: Ino, offset: u64, len: u64) -> Option<(FragmentIndex, u64)> {
        let piece = self.layout.pieces(ino, offset, len).next()?;
        (piece.len == len).then_some((piece.fragment, piece.object_offset))
    }

    fn object_on(&self, ino: Ino, fragment: FragmentIndex) -> Result<OwnedFd> {
        if self.layout.fragments == 1 {
            return self.object(ino);
        }
        self.nodes.descriptor_here(fragment, self.id(), ino)
    }

    fn wrote(&self, ino: Ino, end: u64, mtime: Time) {
        self.nodes.commits().written(ino);
        // The object that is the whole file tells by itself.
        if self.layout.fragments > 1 {
            let mut files = self.files();
            files.written(ino, 0..end, mtime);
            files.lost_track(ino);
        }
    }
}

impl Client {
    /// Notes what became of a change of these ranges: after one that failed, some of it may be there.
    pub(super) fn note(
        &self,
        ino: Ino,
        ranges: impl IntoIterator<Item = Range<u64>>,
        result: Result<Time>,
    ) -> Result<()> {
        let mut files = self.files();
        let result = files.exists(ino).and(result);
        match result {
            Ok(mtime) => ranges.into_iter().for_each(|range| files.written(ino, range, mtime)),
            Err(_) => files.lost_track(ino),
        }
        result.map(drop)
    }

    fn next_runs(&self, ino: Ino, offset: u64) -> Result<Vec<Run>> {
        let place = |fragment| self.layout.object_size(ino, fragment, offset).unwrap_or(0);
        let fragments: Vec<FragmentIndex> = self.layout.fragments_of(ino).collect();
        let next = |&fragment: &FragmentIndex| (fragment, Request::NextData { ino, offset: place(fragment) });
        let replies = self.ask_each(fragments.iter().map(next))?;
        fragments
            .into_iter()
            .zip(replies)
            .map(|(fragment, reply)| match reply {
                Reply::Range(run) => Ok((fragment, place(fragment), run.map(|(start, end)| start..end))),
                _ => Err(Errno::PROTO),
            })
            .collect()
    }

    /// The place in the file of a byte of an object.
    fn file_offset(&self, ino: Ino, fragment: FragmentIndex, object_offset: u64) -> u64 {
        self.layout.file_size(ino, fragment, object_offset + 1) - 1
    }

    /// A range of the file, cut where its objects end and into pieces that are sent behind each other: while a node
    /// stores or loads one, the network has the next.
    fn parts(&self, ino: Ino, offset: u64, len: usize) -> impl Iterator<Item = Part> {
        self.layout.pieces(ino, offset, len as u64).flat_map(|piece| {
            (0..piece.len).step_by(PART_BYTES_MAX).map(move |at| Part {
                fragment: piece.fragment,
                object_offset: piece.object_offset + at,
                file_offset: piece.file_offset + at,
                len: index(piece.len - at).min(PART_BYTES_MAX),
            })
        })
    }

    pub(super) fn store(&self, fragment: FragmentIndex, request: &Request, payload: &[u8]) -> Result<Time> {
        match self.ask(fragment, request, payload) {
            Err(Errno::NOSPC) => self.store_once_more(fragment, request, payload),
            reply => stored(reply?),
        }
    }

    /// Files that were just removed give their space back in the background: waits for that, and tries again.
    fn store_once_more(&self, fragment: FragmentIndex, request: &Request, payload: &[u8]) -> Result<Time> {
        self.home(&Request::AwaitDestroyed)?;
        stored(self.ask(fragment, request, payload)?)
    }
}

/// The most that one request of several carries: a quarter of what the kernel asks for at once.
const PART_BYTES_MAX: usize = PAYLOAD_BYTES_MAX / 4;

/// What one request of several reads or writes.
#[derive(Clone, Copy, Debug)]
struct Part {
    fragment: FragmentIndex,
    object_offset: u64,
    file_offset: u64,
    len: usize,
}

impl Part {
    fn len_u32(&self) -> u32 {
        u32::try_from(self.len).expect("at most PART_BYTES_MAX")
    }
}

fn stored(reply: Reply) -> Result<Time> {
    match reply {
        Reply::Stored { mtime } => Ok(mtime),
        _ => Err(Errno::PROTO),
    }
}

/// A fragment, where the file offset lies in its object, and the object's next run of data from there.
type Run = (FragmentIndex, u64, Option<Range<u64>>);

/// A length or offset inside a buffer.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
