//! What a journal says of earlier runs.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;

use wire::node::PfsMount;

use super::drained::Drained;
use super::record::{NoRecord, Record, StartRecord};
use super::{Finished, Unfinished, error, folders, key};

/// What earlier runs left.
#[derive(Default)]
pub(super) struct Past {
    pub(super) run: u64,
    pub(super) finished: HashMap<u64, Finished>,
    pub(super) unfinished: HashMap<PathBuf, Unfinished>,
    pub(super) made: HashSet<PathBuf>,
    pub(super) mounted: Vec<PfsMount>,
    pub(super) is_damaged: bool,
    pub(super) drained: Drained,
    pub(super) folders: Vec<folders::Noted>,
    /// The run that is being read was a pass.
    in_pass: bool,
}

impl Past {
    /// Reads all whole lines of `file`; also gives their length in bytes, 0 for another stage's journal.
    ///
    /// # Errors
    /// It cannot be read, a newer Forebay wrote it, or a line is not as it was written.
    pub(super) fn read(file: &File, own: &StartRecord) -> io::Result<(Past, u64)> {
        let (mut past, mut length, mut line, mut number) = (Past::default(), 0, Vec::new(), 0);
        let mut reader = BufReader::new(file);
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            length += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
            number += 1;
            match Record::parse(&line) {
                Ok(Record::Start(start)) if !start.is_of_same(own) => return Ok((Past::default(), 0)),
                Ok(record) => past.add(record),
                Err(NoRecord::Newer(newer)) => return Err(newer.into()),
                // If it was of a file, that is copied again.
                Err(NoRecord::Damaged(_)) if line.contains(&0) => past.is_damaged = true,
                Err(NoRecord::Damaged(why)) => return Err(error::damaged(number, &why)),
            }
            line.clear();
        }
        Ok((past, length))
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Start(start) => (self.run, self.in_pass) = (start.run, start.pass),
            Record::Part(part) => {
                self.unfinished.insert(part.target.to_path(), part.unfinished());
            }
            Record::Blocks(written) => {
                if let Some(file) = self.unfinished.get_mut(&written.target.to_path()) {
                    file.blocks.extend(written.blocks);
                }
            }
            Record::File(file) => {
                let target = file.target.to_path();
                self.unfinished.remove(&target);
                self.finished.insert(key(&target), file.done());
                self.drained.finished(target, self.in_pass);
            }
            Record::Made(made) => {
                self.made.insert(made.target.to_path());
            }
            Record::Remark(_) => {}
            Record::Folder(noted) => self.folders.push(noted.into()),
            Record::Mounted(noted) => match noted.mount() {
                Some(mount) => self.mounted.push(mount),
                None => self.is_damaged = true,
            },
            Record::Cleared => self.folders.clear(),
            Record::Published(there) => self.drained.published(&there.path.to_path(), there.inode()),
            Record::Opened(there) => self.drained.opened(there.path.to_path(), there.inode()),
        }
    }
}
