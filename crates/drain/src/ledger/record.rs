//! The lines of the ledger's file.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage::journal::PathText;

use super::landed::Landed;
use super::owner::Of;
use crate::generation::{Generation, Stamp};
use crate::placed::{Over, Placed};

/// The format. It is raised when an older Forebay must not read what is written from then on.
pub(super) const FORMAT: u32 = 1;

fn first() -> u32 {
    1
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    Of {
        /// Of the records from here on; builds from before 0.1.0 wrote none.
        #[serde(default = "first")]
        format: u32,
        from: PathText,
        to: PathText,
        session: String,
    },
    Begun(LandedRecord),
    Landed(LandedRecord),
    Placed {
        target: PathText,
        inode: Placed,
        /// What had the name; builds from before 0.1.0 wrote none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over: Option<Over>,
    },
    First {
        target: PathText,
        over: Over,
    },
    Gone(PathText),
    Lost(LostRecord),
}

/// A file of which the node's disk could not write back something.
#[derive(Serialize, Deserialize)]
pub(super) struct LostRecord {
    ino: u64,
    born: Stamp,
    /// Of the two, each as eight bytes or eight and four, little-endian: another file would be called drained for a
    /// digit that is wrong. Earlier builds wrote none.
    crc32c: Option<u32>,
}

impl LostRecord {
    pub(super) fn new((ino, born): (u64, Stamp)) -> LostRecord {
        LostRecord { ino, born, crc32c: Some(sum_of(ino, born)) }
    }

    /// The file; `None` where the checksum is another.
    pub(super) fn file(&self) -> Option<(u64, Stamp)> {
        let is_whole = self.crc32c.is_none_or(|sum| sum == sum_of(self.ino, self.born));
        is_whole.then_some((self.ino, self.born))
    }
}

fn sum_of(ino: u64, (seconds, nanos): Stamp) -> u32 {
    let parts = [&ino.to_le_bytes()[..], &seconds.to_le_bytes(), &nanos.to_le_bytes()];
    crc32c::crc32c(&parts.concat())
}

impl Record {
    pub(super) fn of(of: &Of) -> Record {
        let (from, to) = (of.from.as_path().into(), of.to.as_path().into());
        Record::Of { format: FORMAT, from, to, session: of.session.clone() }
    }
}

#[derive(Serialize, Deserialize)]
pub(super) struct LandedRecord {
    path: PathText,
    target: PathText,
    generation: Generation,
    crc32c: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<String>,
}

impl LandedRecord {
    pub(super) fn new(path: &Path, landed: &Landed) -> LandedRecord {
        LandedRecord {
            path: path.into(),
            target: landed.target.as_path().into(),
            generation: landed.generation,
            crc32c: landed.crc32c,
            left_out: landed.left_out.clone(),
        }
    }

    pub(super) fn read(self) -> (PathBuf, Landed) {
        let LandedRecord { path, target, generation, crc32c, left_out } = self;
        (path.to_path(), Landed { target: target.to_path(), generation, crc32c, left_out })
    }
}

/// A line that is whole, and damaged.
pub(super) fn not_a_record() -> io::Error {
    let text = "a line of it is damaged, which may say what the node's disk has lost; if that disk has reported no \
                error (dmesg), remove the file: everything is drained again";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Appends it as a line.
pub(super) fn append(lines: &mut Vec<u8>, record: &Record) {
    serde_json::to_writer(&mut *lines, record).expect("records have no maps and no failing serialiser");
    lines.push(b'\n');
}
