//! What is wrong with an object, and how it is said.

use std::io;
use std::ops::Range;

use model::Ino;
use serde::{Deserialize, Serialize};
use wire::data::message::UNKNOWN_BYTES;
use wire::node::Damage;

use crate::extents::BLOCK_BYTES;

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// It is gone.
    Missing {
        /// The length that it had.
        was: u64,
    },
    /// It has another length.
    Length {
        /// The length that it has.
        is: u64,
        /// The length that it had.
        was: u64,
    },
    /// Blocks of it do not match their checksums.
    Blocks {
        /// Which.
        blocks: Range<u64>,
    },
    /// The checksums themselves are damaged.
    Sums {
        /// Of the blocks from here to the next whole MiB.
        block: u64,
    },
    /// The disk does not give it.
    Unreadable {
        /// From here on.
        block: u64,
        /// Why.
        errno: i32,
    },
    /// The disk does not give any of it.
    Unopened {
        /// The length that it should have, as far as anybody knows.
        was: u64,
        /// Why.
        errno: i32,
    },
}

/// An object that is not what was sealed, as an I/O error: EIO for whoever asked.
#[derive(Debug, thiserror::Error)]
#[error("the object of inode {ino}: {}", fault.described())]
struct Faulty {
    ino: Ino,
    fault: Fault,
}

const UNKNOWN_IS_GONE: &str = "the object is gone, and nobody knows how long it was";

impl Fault {
    /// The error of whoever uses the object.
    pub fn error(&self, ino: Ino) -> io::Error {
        io::Error::other(Faulty { ino, fault: self.clone() })
    }

    /// What is wrong with the object that an error is about; `None`: it is about something else.
    pub fn of(error: &io::Error) -> Option<Fault> {
        error.get_ref()?.downcast_ref::<Faulty>().map(|faulty| faulty.fault.clone())
    }

    /// The disk does not give the byte at `offset`.
    pub fn unreadable(offset: u64, error: &io::Error) -> Fault {
        let errno = error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error());
        Fault::Unreadable { block: offset / BLOCK_BYTES, errno }
    }

    /// The disk does not give what is at `offset`, or after it, of an object: an error of any other kind stays what it
    /// is.
    pub fn of_read(ino: Ino, offset: u64, error: io::Error) -> io::Error {
        match error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) {
            true => Fault::unreadable(offset, &error).error(ino),
            false => error,
        }
    }

    /// The bytes of the object that are lost.
    pub fn bytes(&self) -> Range<u64> {
        match self {
            Fault::Missing { was } | Fault::Length { was, .. } | Fault::Unopened { was, .. } => 0..*was,
            Fault::Blocks { blocks } => blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES,
            Fault::Sums { block } => {
                block * BLOCK_BYTES..(block / super::CHUNK_BLOCKS + 1) * super::CHUNK_BYTES
            }
            Fault::Unreadable { block, .. } => block * BLOCK_BYTES..(block + 1) * BLOCK_BYTES,
        }
    }

    /// What is wrong, in words.
    pub fn described(&self) -> String {
        let Range { start, end } = self.bytes();
        match self {
            Fault::Missing { was } if *was >= UNKNOWN_BYTES => UNKNOWN_IS_GONE.to_owned(),
            Fault::Missing { was } => format!("it had {was} bytes when it was sealed, and is gone"),
            Fault::Length { is, was } => format!("it had {was} bytes when it was sealed, and has {is}"),
            Fault::Blocks { .. } => format!("bytes {start} to {end} do not match their checksums"),
            Fault::Sums { .. } => format!("the checksums of bytes {start} to {end} are damaged"),
            Fault::Unreadable { errno, .. } => {
                let cause = io::Error::from_raw_os_error(*errno);
                format!("bytes {start} to {end} cannot be read: {cause}")
            }
            Fault::Unopened { errno, .. } => {
                format!("it cannot be opened: {}", io::Error::from_raw_os_error(*errno))
            }
        }
    }

    /// The same of the bytes that [`Fault::bytes`] tells.
    fn of_bytes(&self) -> String {
        match self {
            Fault::Missing { was } if *was >= UNKNOWN_BYTES => {
                format!("and more are gone: {UNKNOWN_IS_GONE}")
            }
            Fault::Missing { was } => format!("are gone: the object had {was} bytes when it was sealed"),
            Fault::Length { is, was } => {
                format!("cannot be trusted: the object had {was} bytes when it was sealed, and has {is}")
            }
            Fault::Blocks { .. } => "do not match their checksums".to_owned(),
            Fault::Sums { .. } => "have checksums that are damaged".to_owned(),
            Fault::Unreadable { errno, .. } => {
                format!("cannot be read: {}", io::Error::from_raw_os_error(*errno))
            }
            Fault::Unopened { errno, .. } => {
                let cause = io::Error::from_raw_os_error(*errno);
                format!("cannot be read: the object cannot be opened: {cause}")
            }
        }
    }

    /// The same for control, of an object that had `length` bytes. Whoever knows the file's layout adds where it is.
    pub fn reported(&self, namespace: u32, ino: Ino, length: u64) -> Damage {
        let Range { start, end } = self.bytes();
        Damage { namespace, ino, start, end: end.min(length), what: self.of_bytes(), ..Damage::default() }
    }
}
