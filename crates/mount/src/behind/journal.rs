//! The journal of what is held back: a file that is appended to, and emptied when nothing is held.
//!
//! ```text
//! record*   inode, offset, length; then the bytes. Length u64::MAX: all before it of the inode was sent.
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use model::Ino;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The length in a record that says that the inode's writes were sent.
const SENT: u64 = u64::MAX;

/// The inode of a record that was struck out.
const NOBODY: u64 = u64::MAX;

/// How long the file may get, with all that was sent: a file that nobody sends keeps what came after it, too.
const FILE_BYTES_MAX: u64 = 128 << 20;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    ino: u64,
    offset: u64,
    len: u64,
}

/// The file.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// Bytes of writes that are held.
    held: usize,
    file_bytes: u64,
}

/// A write that was held: inode, offset and bytes.
pub type Held = (Ino, u64, Vec<u8>);

impl Journal {
    /// An empty journal.
    ///
    /// # Errors
    /// What the file system says.
    pub fn create(path: &Path) -> io::Result<Journal> {
        // The bytes are the job's: for the owner's eyes only.
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).mode(0o600).open(path)?;
        Ok(Journal { file, held: 0, file_bytes: 0 })
    }

    /// The journal of a process that died, and what it held, in order.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(path: &Path) -> io::Result<(Journal, Vec<Held>)> {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        let mut held: Vec<Held> = Vec::new();
        let mut rest = bytes.as_slice();
        // A rest that is no whole record was being appended when the process died: nobody was told of it.
        while let Ok((head, after)) = Head::read_from_prefix(rest) {
            rest = after;
            if head.len == SENT {
                held.retain(|(ino, _, _)| u64::from(*ino) != head.ino);
                continue;
            }
            let Some((bytes, after)) =
                usize::try_from(head.len).ok().and_then(|len| rest.split_at_checked(len))
            else {
                break;
            };
            held.push((head.ino.into(), head.offset, bytes.to_vec()));
            rest = after;
        }
        held.retain(|(ino, _, _)| u64::from(*ino) != NOBODY);
        let mut journal = Journal::create(&path.with_extension("new"))?;
        for (ino, offset, bytes) in &held {
            journal.hold(*ino, *offset, bytes)?;
        }
        std::fs::rename(path.with_extension("new"), path)?;
        Ok((journal, held))
    }

    /// Notes a write that is held from now on.
    ///
    /// # Errors
    /// What the file system says; the write is not noted then.
    pub fn hold(&mut self, ino: Ino, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.append(Head { ino: ino.into(), offset, len: bytes.len() as u64 }, bytes)?;
        self.held += bytes.len();
        Ok(())
    }

    /// Bytes of writes that are held.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Whether it is time to send everything, so that it can be emptied.
    pub fn is_long(&self) -> bool {
        self.file_bytes > FILE_BYTES_MAX
    }

    /// Notes that all of the inode's writes, `bytes` of them, were sent.
    pub fn sent(&mut self, ino: Ino, bytes: usize) {
        self.held -= bytes;
        let noted = if self.held == 0 {
            self.empty()
        } else {
            self.append(Head { ino: ino.into(), offset: 0, len: SENT }, &[])
        };
        if let Err(error) = noted {
            // A successor must not send it once more: others may have written there since.
            let struck = self.strike(ino);
            let struck = struck.as_ref().err().map(tracing::field::display);
            tracing::warn!(%error, struck, "no room to note that what was held back is sent; its records are struck out");
        }
    }

    /// Makes the inode's records nobody's, where they are: that takes no room.
    fn strike(&self, ino: Ino) -> io::Result<()> {
        let mut at = 0;
        while at < self.file_bytes {
            let mut head = Head { ino: 0, offset: 0, len: 0 };
            self.file.read_exact_at(head.as_mut_bytes(), at)?;
            if Ino::from(head.ino) == ino {
                self.file.write_all_at(Head { ino: NOBODY, ..head }.as_bytes(), at)?;
            }
            at += size_of::<Head>() as u64 + if head.len == SENT { 0 } else { head.len };
        }
        Ok(())
    }

    fn empty(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(0))?;
        self.file.set_len(0)?;
        self.file_bytes = 0;
        Ok(())
    }

    fn append(&mut self, head: Head, bytes: &[u8]) -> io::Result<()> {
        let start = self.file_bytes;
        let len = size_of::<Head>() + bytes.len();
        let written = self.file.write_vectored(&[IoSlice::new(head.as_bytes()), IoSlice::new(bytes)]);
        let result = match written {
            Ok(n) if n == len => Ok(()),
            Ok(_) => Err(io::ErrorKind::StorageFull.into()),
            Err(error) => Err(error),
        };
        match &result {
            Ok(()) => self.file_bytes += len as u64,
            // What follows must begin where a record ends.
            Err(_) => {
                self.file.set_len(start)?;
                self.file.seek(SeekFrom::Start(start))?;
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_finds_what_was_held_and_not_what_was_sent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("held");
        let mut journal = Journal::create(&path).unwrap();
        journal.hold(Ino(7), 100, b"gone").unwrap();
        journal.hold(Ino(8), 5, b"kept").unwrap();
        journal.sent(Ino(7), 4);
        journal.hold(Ino(7), 200, b"again").unwrap();
        assert_eq!(journal.held(), 9);
        let expected = vec![(Ino(8), 5, b"kept".to_vec()), (Ino(7), 200, b"again".to_vec())];
        assert_eq!(Journal::open(&path).unwrap().1, expected);
        let (mut journal, held) = Journal::open(&path).unwrap();
        assert_eq!(held, expected, "also a successor's successor");
        journal.sent(Ino(8), 4);
        journal.sent(Ino(7), 5);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        assert_eq!(Journal::open(&path).unwrap().1, []);
    }

    #[test]
    fn what_was_struck_out_is_not_held_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("held");
        let mut journal = Journal::create(&path).unwrap();
        journal.hold(Ino(7), 0, b"sent").unwrap();
        journal.hold(Ino(8), 5, b"kept").unwrap();
        journal.hold(Ino(7), 9, b"sent, too").unwrap();
        journal.strike(Ino(7)).unwrap();
        journal.hold(Ino(7), 200, b"again").unwrap();
        assert_eq!(
            Journal::open(&path).unwrap().1,
            [(Ino(8), 5, b"kept".to_vec()), (Ino(7), 200, b"again".to_vec())]
        );
    }

    #[test]
    fn a_record_that_was_cut_off_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("held");
        let mut journal = Journal::create(&path).unwrap();
        journal.hold(Ino(7), 0, b"whole").unwrap();
        journal.hold(Ino(7), 5, b"cut off").unwrap();
        let len = std::fs::metadata(&path).unwrap().len();
        OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1, [(Ino(7), 0, b"whole".to_vec())]);
    }
}
