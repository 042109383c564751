//! The lines of the ledger's file.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage::journal::PathText;

use super::Landed;
use crate::generation::Generation;
use crate::placed::Placed;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    Of { from: PathText, to: PathText, session: String },
    Begun(LandedRecord),
    Landed(LandedRecord),
    Placed { target: PathText, inode: Placed },
    Gone(PathText),
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
