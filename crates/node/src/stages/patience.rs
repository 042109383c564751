//! How long a stage's worker is started again: while each life brings the stage further. A machine short of memory
//! kills the same one each time, and a file may kill whoever reads it.
//!
//! **Invariant:** what counts is what the journal has for the first time: a file that is done, or a block of a large
//! one.

use std::collections::HashSet;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// As many lives in a row may bring nothing.
const LIVES_IN_VAIN_MAX: u32 = 6;

/// The patience with the worker of one stage.
pub(super) struct Patience {
    journal: PathBuf,
    /// So much of the journal was read, bytes.
    read: u64,
    /// Hashes of what was found in it.
    known: HashSet<u64>,
    in_vain: u32,
}

impl Patience {
    /// With the stage that is kept in `folder`. What is in its journal counts for nothing.
    pub(super) fn new(folder: &Path) -> Patience {
        let journal = folder.join("journal");
        let mut patience = Patience { journal, read: 0, known: HashSet::new(), in_vain: 0 };
        patience.has_progress();
        patience
    }

    /// A life ended before the stage did; says whether there is to be another.
    pub(super) fn has_ended(&mut self) -> bool {
        self.in_vain = if self.has_progress() { 0 } else { self.in_vain + 1 };
        self.in_vain < LIVES_IN_VAIN_MAX
    }

    /// Lives in a row that brought nothing.
    pub(super) fn in_vain(&self) -> u32 {
        self.in_vain
    }

    /// What the threads of the last life were at, as it noted.
    pub(super) fn at(&self) -> Vec<String> {
        let noted = std::fs::read(self.journal.with_extension("at")).unwrap_or_default();
        let slots = noted.split(|byte| *byte == 0).filter(|text| !text.is_empty());
        slots.map(|text| String::from_utf8_lossy(text).into_owned()).collect()
    }

    /// Whether the journal has anything that it did not have when this was asked last.
    fn has_progress(&mut self) -> bool {
        let before = self.known.len();
        if let Err(error) = self.read() {
            tracing::warn!("read {}: {error}", self.journal.display());
        }
        self.known.len() > before
    }

    fn read(&mut self) -> io::Result<()> {
        let mut file = match File::open(&self.journal) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.read))?;
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.read += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
            if let Ok(record) = serde_json::from_slice::<Value>(&line) {
                self.take(&record);
            }
            line.clear();
        }
        Ok(())
    }

    fn take(&mut self, record: &Value) {
        if let Some(file) = record.get("file") {
            self.known.insert(hash(&file["target"], None));
        }
        if let Some(written) = record.get("blocks") {
            for block in written["blocks"].as_array().into_iter().flatten() {
                self.known.insert(hash(&written["target"], block[0].as_u64()));
            }
        }
    }
}

fn hash(target: &Value, block: Option<u64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    target.to_string().hash(&mut hasher);
    block.hash(&mut hasher);
    hasher.finish()
}
