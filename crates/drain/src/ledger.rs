//! What has landed on the PFS, on the node's disk: the drainer's memory across `kill -9` and reboots.
//!
//! ```text
//! ledger := record*                 one JSON object a line, appended; a torn last line is cut off at the next start
//! record := {"landed":{...}} | {"gone":path}
//! ```
//!
//! A record that a power loss takes away only makes a file be copied again.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use stage::journal::PathText;

use crate::generation::{Generation, Stamp};

/// A file that is on the PFS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// Its name there.
    pub target: PathBuf,
    /// Which version of the file on the node it is.
    pub generation: Generation,
    /// CRC32C of its contents; `None` for a symbolic link.
    pub crc32c: Option<u32>,
}

/// Everything that has landed, by the path below the drained folder.
pub struct Ledger {
    file: File,
    landed: HashMap<PathBuf, Landed>,
    /// Paths of one file: more than one if it was renamed, or has several names.
    paths: HashMap<(u64, Stamp), Vec<PathBuf>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Record {
    Landed { path: PathText, target: PathText, generation: Generation, crc32c: Option<u32> },
    Gone(PathText),
}

impl Ledger {
    /// Reads the ledger at `path`, or makes it.
    ///
    /// # Errors
    /// The file cannot be opened, read or written.
    pub fn open(path: &Path) -> anyhow::Result<Ledger> {
        let open = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = open.with_context(|| format!("open the ledger {}", path.display()))?;
        let mut ledger = Ledger { file, landed: HashMap::new(), paths: HashMap::new() };
        let whole = ledger.read().with_context(|| format!("read the ledger {}", path.display()))?;
        ledger.file.set_len(whole).and_then(|()| ledger.file.seek(SeekFrom::End(0))).map(drop)?;
        Ok(ledger)
    }

    /// Takes in all whole lines; gives their length, bytes.
    fn read(&mut self) -> std::io::Result<u64> {
        let mut reader = BufReader::new(self.file.try_clone()?);
        let (mut length, mut line) = (0, Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            length += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
            match serde_json::from_slice(&line) {
                Ok(Record::Landed { path, target, generation, crc32c }) => {
                    self.put(path.to_path(), Landed { target: target.to_path(), generation, crc32c });
                }
                Ok(Record::Gone(path)) => self.take(&path.to_path()),
                // Whatever it was, that file is copied again.
                Err(error) => tracing::warn!("the ledger has a line that is no record: {error}"),
            }
            line.clear();
        }
        Ok(length)
    }

    /// What landed from this path.
    pub fn get(&self, path: &Path) -> Option<&Landed> {
        self.landed.get(path)
    }

    /// All of it.
    pub fn iter(&self) -> impl Iterator<Item = (&PathBuf, &Landed)> {
        self.landed.iter()
    }

    /// How many files have landed.
    pub fn len(&self) -> usize {
        self.landed.len()
    }

    /// Other paths that the file of `path` landed from.
    pub fn other_paths(&self, path: &Path) -> Vec<PathBuf> {
        let Some(landed) = self.landed.get(path) else { return Vec::new() };
        let paths = self.paths.get(&landed.generation.file()).into_iter().flatten();
        paths.filter(|other| *other != path).cloned().collect()
    }

    /// Records files that have landed.
    ///
    /// # Errors
    /// The node's disk.
    pub fn land(&mut self, files: &[(PathBuf, Landed)]) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for (path, landed) in files {
            let record = Record::Landed {
                path: path.as_path().into(),
                target: landed.target.as_path().into(),
                generation: landed.generation,
                crc32c: landed.crc32c,
            };
            append(&mut lines, &record);
            self.put(path.clone(), landed.clone());
        }
        self.file.write_all(&lines)
    }

    /// Records that what landed from `path` was removed again.
    ///
    /// # Errors
    /// The node's disk.
    pub fn gone(&mut self, path: &Path) -> std::io::Result<()> {
        let mut line = Vec::new();
        append(&mut line, &Record::Gone(path.into()));
        self.take(path);
        self.file.write_all(&line)
    }

    /// Makes what was recorded survive a power loss.
    ///
    /// # Errors
    /// The node's disk.
    pub fn sync(&self) -> std::io::Result<()> {
        self.file.sync_data()
    }

    fn put(&mut self, path: PathBuf, landed: Landed) {
        self.take(&path);
        self.paths.entry(landed.generation.file()).or_default().push(path.clone());
        self.landed.insert(path, landed);
    }

    fn take(&mut self, path: &Path) {
        let Some(landed) = self.landed.remove(path) else { return };
        let file = landed.generation.file();
        if let Some(paths) = self.paths.get_mut(&file) {
            paths.retain(|other| other != path);
            if paths.is_empty() {
                self.paths.remove(&file);
            }
        }
    }
}

fn append(lines: &mut Vec<u8>, record: &Record) {
    serde_json::to_writer(&mut *lines, record).expect("records have no maps and no failing serialiser");
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn landed(ino: u64) -> Landed {
        let generation = Generation { ino, born: (1, 2), size: 3, mtime: (4, 5), ctime: (6, 7) };
        Landed { target: "/pfs/a".into(), generation, crc32c: Some(8) }
    }

    #[test]
    fn a_ledger_remembers_and_cuts_off_what_a_crash_tore() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger");
        let mut ledger = Ledger::open(&path).unwrap();
        ledger.land(&[("a".into(), landed(1)), ("b".into(), landed(1)), ("c".into(), landed(2))]).unwrap();
        ledger.gone(Path::new("c")).unwrap();
        drop(ledger);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"gone\":\"a").unwrap();
        let mut ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.len(), 2);
        assert_eq!(ledger.other_paths(Path::new("a")), [PathBuf::from("b")]);
        ledger.gone(Path::new("b")).unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.get(Path::new("a")), Some(&landed(1)));
        assert_eq!(ledger.len(), 1);
    }
}
