//! What a ledger says.

use std::io::{BufRead, BufReader, Result};

use disk::format::FormatError;

use super::record::{FORMAT, Record, not_a_record};
use super::{Ledger, Of};

impl Ledger {
    /// Takes in all whole lines; gives their length, bytes. They end where a power loss left zeros: no loss is behind
    /// them, as each is synced, and of all else a record that is missing only makes a file be copied again.
    pub(super) fn read(&mut self) -> Result<u64> {
        let mut reader = BufReader::new(self.file.try_clone()?);
        let (mut length, mut line) = (0, Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") && !line.contains(&0) {
            length += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
            match serde_json::from_slice(&line) {
                Ok(Record::Of { format, .. }) if format > FORMAT => {
                    return Err(FormatError::Newer { found: format.into(), known: FORMAT }.into());
                }
                Ok(Record::Of { from, to, session, .. }) => {
                    self.of = Some(Of { from: from.to_path(), to: to.to_path(), session });
                }
                Ok(Record::Begun(record)) => {
                    let (path, begun) = record.read();
                    self.put_begun(path, begun);
                }
                Ok(Record::Landed(record)) => {
                    let (path, landed) = record.read();
                    self.put(path, landed);
                }
                Ok(Record::Placed { target, inode, over }) => self.put_placed(target.to_path(), inode, over),
                Ok(Record::First { target, over }) => drop(self.first.insert(target.to_path(), over)),
                Ok(Record::Gone(path)) => self.forget(&path.to_path()),
                Ok(Record::Lost(record)) => drop(self.lost.insert(record.file().ok_or_else(not_a_record)?)),
                // It may say what the node's disk has lost.
                Err(_) => return Err(not_a_record()),
            }
            line.clear();
        }
        Ok(length)
    }
}
