//! Reading and writing: file ranges cut into pieces of objects.

use std::ops::Range;

use rustix::io::Errno;
use wire::data::message::AllocateMode;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request, Time};

use super::{Client, Result};

impl Client {
    /// Reads into `buffer`; fewer bytes at the file's end. Holes read as zeros.
    pub fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut short = None;
        for piece in self.layout.pieces(ino, offset, buffer.len() as u64) {
            let start = index(piece.file_offset - offset);
            let wanted = &mut buffer[start..start + index(piece.len)];
            let read = self.read_piece(ino, piece.fragment, piece.object_offset, wanted)?;
            if read < wanted.len() {
                wanted[read..].fill(0);
                short.get_or_insert(start + read);
            }
        }
        match short {
            None => Ok(buffer.len()),
            // The object is the whole file: it ends where the file does.
            Some(end) if self.layout.width == 1 => Ok(end),
            // Some other object may go on: the file's size decides.
            Some(_) => {
                let size = self.getattr(ino)?.size;
                Ok(buffer.len().min(index(size.saturating_sub(offset))))
            }
        }
    }

    /// Writes all of `bytes`. When it returns, the storage nodes have them.
    ///
    /// # Errors
    /// ENOSPC when they do not fit the capacity; a part of them may have been written then.
    pub fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        for piece in self.layout.pieces(ino, offset, bytes.len() as u64) {
            let start = index(piece.file_offset - offset);
            let piece_bytes = &bytes[start..start + index(piece.len)];
            for (n, chunk) in piece_bytes.chunks(PAYLOAD_BYTES_MAX).enumerate() {
                let at = (n * PAYLOAD_BYTES_MAX) as u64;
                let request = Request::Write { ino, offset: piece.object_offset + at };
                let mtime = self.store(piece.fragment, &request, chunk)?;
                self.files().written(ino, piece.file_offset + at + chunk.len() as u64, mtime);
            }
        }
        Ok(())
    }

    /// Allocates, frees or zeroes a range.
    pub fn allocate(&self, ino: u64, offset: u64, len: u64, mode: AllocateMode) -> Result<()> {
        let end = offset.checked_add(len).ok_or(Errno::FBIG)?;
        for fragment in self.layout.fragments_of(ino) {
            let place = |at| self.layout.object_size(ino, fragment, at).unwrap_or(0);
            // A range of the file is one range of each object, because objects are packed densely.
            let (start, stop) = (place(offset), place(end));
            if start < stop {
                let request = Request::Allocate { ino, offset: start, len: stop - start, mode };
                let mtime = self.store(fragment, &request, &[])?;
                let grown = if mode == AllocateMode::Grow { end } else { 0 };
                self.files().written(ino, grown, mtime);
            }
        }
        Ok(())
    }

    /// Makes the file's contents and every metadata change so far survive a power loss of the storage nodes.
    pub fn fsync(&self, ino: u64) -> Result<()> {
        let mut requests: Vec<_> = self
            .layout
            .fragments_of(ino)
            .map(|fragment| (fragment, self.id(), Request::Sync { ino }))
            .collect();
        requests.push((self.home, self.id(), Request::SyncMetadata));
        self.nodes.call_each(&requests, &|| self.files().held()).map(drop)
    }

    /// Makes every metadata change so far survive a power loss of the home shard's node.
    pub fn sync_metadata(&self) -> Result<()> {
        self.home(&Request::SyncMetadata).map(drop)
    }

    /// The next range of the file that has data, at or after `offset`; `None`: only a hole to the end. A range may end
    /// before its data does.
    pub fn next_data(&self, ino: u64, offset: u64) -> Result<Option<Range<u64>>> {
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

    /// Where the next hole at or after `offset` begins; the file's size where there is none before its end.
    pub fn next_hole(&self, ino: u64, offset: u64, size: u64) -> Result<u64> {
        let runs = self.next_runs(ino, offset)?;
        let holes = runs.into_iter().map(|(fragment, start, run)| {
            let hole = run.filter(|run| run.start <= start).map_or(start, |run| run.end);
            self.file_offset(ino, fragment, hole)
        });
        Ok(holes.min().unwrap_or(offset).clamp(offset, size))
    }

    fn next_runs(&self, ino: u64, offset: u64) -> Result<Vec<Run>> {
        let place = |fragment| self.layout.object_size(ino, fragment, offset).unwrap_or(0);
        let fragments: Vec<u32> = self.layout.fragments_of(ino).collect();
        let requests: Vec<_> = fragments
            .iter()
            .map(|&fragment| (fragment, self.id(), Request::NextData { ino, offset: place(fragment) }))
            .collect();
        let replies = self.nodes.call_each(&requests, &|| self.files().held())?;
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
    fn file_offset(&self, ino: u64, fragment: u32, object_offset: u64) -> u64 {
        self.layout.file_size(ino, fragment, object_offset + 1) - 1
    }

    fn read_piece(&self, ino: u64, fragment: u32, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        for chunk in buffer.chunks_mut(PAYLOAD_BYTES_MAX) {
            let len = u32::try_from(chunk.len()).expect("a chunk is at most 1 MiB");
            let request = Request::Read { ino, offset: offset + done as u64, len };
            let recall = || self.files().held();
            let (_, read) = self.nodes.call(fragment, self.id(), &request, &[], chunk, &recall)?;
            done += read;
            if read < chunk.len() {
                break;
            }
        }
        Ok(done)
    }

    pub(super) fn store(&self, fragment: u32, request: &Request, payload: &[u8]) -> Result<Time> {
        let reply = match self.ask(fragment, request, payload) {
            Err(Errno::NOSPC) => {
                // Files that were just removed give their space back in the background: wait for that, then once more.
                self.home(&Request::AwaitDestroyed)?;
                self.ask(fragment, request, payload)?
            }
            other => other?,
        };
        match reply {
            Reply::Stored { mtime } => Ok(mtime),
            _ => Err(Errno::PROTO),
        }
    }
}

/// A fragment, where the file offset lies in its object, and the object's next run of data from there.
type Run = (u32, u64, Option<Range<u64>>);

/// A length or offset inside a buffer.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
