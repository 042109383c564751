//! The lines of the ledger's file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage::journal::PathText;

use super::landed::Landed;
use super::owner::Of;
use crate::generation::Generation;
use crate::placed::Placed;

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
    },
    Gone(PathText),
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
}

impl LandedRecord {
    pub(super) fn new(path: &Path, landed: &Landed) -> LandedRecord {
        LandedRecord {
            path: path.into(),
            target: landed.target.as_path().into(),
            generation: landed.generation,
            crc32c: landed.crc32c,
        }
    }

    pub(super) fn read(self) -> (PathBuf, Landed) {
        let LandedRecord { path, target, generation, crc32c } = self;
        (path.to_path(), Landed { target: target.to_path(), generation, crc32c })
    }
}

/// Appends it as a line.
pub(super) fn append(lines: &mut Vec<u8>, record: &Record) {
    serde_json::to_writer(&mut *lines, record).expect("records have no maps and no failing serialiser");
    lines.push(b'\n');
}
