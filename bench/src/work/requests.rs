//! Requests of one length in order: all of a file, or one client's of a file in which several take turns.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use serde::{Deserialize, Serialize};

/// What one client does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Requests {
    /// Bytes of each.
    pub bytes: usize,
    /// How many.
    pub count: usize,
    /// Which client it is.
    pub client: usize,
    /// How many take turns in the file: request `k` of client `i` of `n` is request `k * n + i` of the file.
    pub turns: usize,
}

impl Requests {
    /// Writes them, and has them on the storage nodes' media.
    pub fn write(&self, file: &File) -> io::Result<()> {
        let mut bytes = vec![0; self.bytes];
        for number in 0..self.count {
            bytes.fill(self.mark(number));
            file.write_all_at(&bytes, self.place(number))?;
        }
        file.sync_all()
    }

    /// Reads them. A rate at which wrong bytes are read is none, but to look at all of them would take time of its own:
    /// the ends of each request tell which it is.
    pub fn read(&self, file: &File) -> io::Result<()> {
        self.read_if(file, |bytes, mark| bytes.first() == Some(&mark) && bytes.last() == Some(&mark))
    }

    /// Looks at every byte.
    pub fn check(&self, file: &File) -> io::Result<()> {
        self.read_if(file, |bytes, mark| bytes.iter().all(|&byte| byte == mark))
    }

    fn read_if(&self, file: &File, right: impl Fn(&[u8], u8) -> bool) -> io::Result<()> {
        let mut bytes = vec![0; self.bytes];
        for number in 0..self.count {
            file.read_exact_at(&mut bytes, self.place(number))?;
            if !right(&bytes, self.mark(number)) {
                return Err(io::Error::other(format!("request {number} of {self:?} is damaged")));
            }
        }
        Ok(())
    }

    fn place(&self, number: usize) -> u64 {
        ((number * self.turns + self.client % self.turns) * self.bytes) as u64
    }

    /// What a request is filled with; never the 0 of a hole.
    fn mark(&self, number: usize) -> u8 {
        u8::try_from((self.client * 7 + number) % 251 + 1).expect("at most 251")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn client(client: usize, turns: usize) -> Requests {
        Requests { bytes: 3, count: 2, client, turns }
    }

    #[test]
    fn clients_take_turns_in_one_file() {
        let file = tempfile::tempfile().unwrap();
        client(0, 2).write(&file).unwrap();
        client(1, 2).write(&file).unwrap();
        let mut bytes = [0; 12];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [1, 1, 1, 8, 8, 8, 2, 2, 2, 9, 9, 9]);
    }

    #[test]
    fn the_second_client_s_own_file_has_no_holes() {
        let file = tempfile::tempfile().unwrap();
        client(1, 1).write(&file).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 6);
    }

    #[test]
    fn a_wrong_byte_is_no_rate() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let opened = OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
        client(0, 1).write(&opened).unwrap();
        client(0, 1).read(&opened).unwrap();
        opened.write_all_at(&[0], 4).unwrap();
        assert!(client(0, 1).check(&opened).is_err());
        opened.write_all_at(&[0], 5).unwrap();
        assert!(client(0, 1).read(&opened).is_err());
    }
}
