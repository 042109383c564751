//! What a host's file of claims says.

use std::collections::HashSet;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use disk::below::Root;
use rustix::fs::{Mode, OFlags};
use stage::journal::PathText;

use crate::intents::{Intents, SIGN};
use crate::status::Trouble;

/// What is known of a host.
#[derive(Default)]
pub(super) struct Host {
    /// Of the file that was read last.
    ino: u64,
    offset: u64,
    pub(super) claimed: HashSet<PathBuf>,
    /// `None`: they are another host's.
    pub(super) intents: Option<Intents>,
    /// Where lines begin that nobody wrote so.
    pub(super) damaged: Vec<u64>,
}

impl Host {
    /// This host, of which nothing is known yet.
    pub(super) fn own() -> Host {
        Host { intents: Some(Intents::default()), ..Host::default() }
    }

    /// Takes in what was appended since.
    pub(super) fn read(&mut self, path: &Path) -> std::io::Result<()> {
        let root = Root::at(path.parent().unwrap_or(path));
        let mut file = root.open_file(path, OFlags::RDONLY, Mode::empty())?;
        let found = file.metadata()?;
        // Somebody has cut it short, or put another in its place: what was claimed still is.
        if found.len() < self.offset || found.ino() != std::mem::replace(&mut self.ino, found.ino()) {
            self.offset = 0;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut new = Vec::new();
        file.read_to_end(&mut new)?;
        for line in new.split_inclusive(|byte| *byte == b'\n') {
            let Some(text) = line.strip_suffix(b"\n") else { break };
            // One that was cut off is no name, nor is what a power loss kept from the disk.
            let is_cut = |error: &serde_json::Error| error.is_eof() || text.contains(&0);
            if self.take(text).is_err_and(|error| !is_cut(&error)) {
                self.damaged.push(self.offset);
            }
            self.offset += u64::try_from(line.len()).expect("a length in memory fits 64 bits");
        }
        Ok(())
    }

    fn take(&mut self, line: &[u8]) -> serde_json::Result<()> {
        let Some((sign, name)) = line.split_first() else { return Ok(()) };
        if char::from(*sign) == SIGN {
            return self.intents.as_mut().map_or(Ok(()), |intents| intents.read(name));
        }
        let name = serde_json::from_slice::<PathText>(name)?.to_path();
        if *sign == b'-' {
            self.intents.iter_mut().for_each(|intents| intents.forget(&name));
            self.claimed.remove(&name);
        } else {
            self.claimed.insert(name);
        }
        Ok(())
    }
}

pub(super) fn unread(path: &Path, file: &Path, error: &std::io::Error) -> Trouble {
    Trouble {
        path: path.display().to_string(),
        errno: error.raw_os_error().unwrap_or(0),
        message: format!(
            "read {}, which says what names another node of this job has on the PFS: {error}",
            file.display()
        ),
        advice: "mend that, or move away what is no file of a drainer's there; it is tried again".to_owned(),
    }
}

/// What to do about a line that nobody wrote so.
pub(super) fn damaged(file: &Path, at: u64) -> Trouble {
    Trouble {
        path: file.display().to_string(),
        errno: 0,
        message: format!(
            "{}: the line from byte {at} on is damaged: the name on the PFS that it is of is not known to be its \
             node's",
            file.display()
        ),
        advice: "compare what is on the PFS with the nodes' receipt, then remove the line; this is said once by each \
                 drainer"
            .to_owned(),
    }
}
