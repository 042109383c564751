//! The two logs in the PFS folder: Spectral's, for all nodes, and one in JSON lines for each node.
//!
//! ```text
//! TO/spectral.log                          Spectral Work ENQUEUE File : DESTINATION
//!                                          Spectral Work DEQUEUE File : DESTINATION
//!                                          Spectral Work DONE File : DESTINATION
//! TO/.forebay-drain/SESSION/HOST.jsonl     {"time","event","host","path","target","size","crc32c","sampled","left_out","attempts","errno","message"}
//! ```
//!
//! A path that is no UTF-8 is a list of bytes in the second. Groups of whole lines are appended: nodes mix none.
//!
//! **Invariant:** a line that could not be written whole takes no other with it: the next group begins with a line's
//! end.

mod log;

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::SystemTime;

use serde::Serialize;
use stage::journal::PathText;

pub(crate) use self::log::ends_a_line;
use self::log::{Log, SPECTRAL_BEGIN};
use crate::status::Trouble;

/// The name of the first in the PFS folder: no drained file gets it.
pub(crate) const SPECTRAL: &str = "spectral.log";

/// Both logs.
pub(crate) struct Logs {
    host: String,
    output: Mutex<Output>,
    /// Held while they are written, and not by who adds a line: the PFS may hang.
    files: Mutex<Files>,
}

/// What is to be written.
#[derive(Default)]
struct Output {
    spectral: Vec<u8>,
    json: Vec<u8>,
    /// Of what files the second log says last that they are not on the PFS.
    undone: HashSet<PathBuf>,
}

struct Files {
    spectral: Log,
    json: Log,
    /// Where the second is.
    path: PathBuf,
    broken: bool,
}

/// Where a file is on its way, in Spectral's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// It is to be copied.
    Enqueue,
    /// It is being copied.
    Dequeue,
    /// It is on the PFS, verified.
    Done,
}

/// A line of the second log.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    /// RFC 3339, UTC.
    pub time: String,
    /// `done`, `failed`, `open`, `removed` or `kept`.
    pub event: &'static str,
    /// The node.
    pub host: &'a str,
    /// The path below the drained folder.
    pub path: PathText,
    /// The name on the PFS.
    pub target: PathText,
    /// Bytes.
    pub size: u64,
    /// CRC32C, eight hexadecimal digits.
    pub crc32c: Option<String>,
    /// The copy was read back in samples, not as a whole.
    pub sampled: bool,
    /// What the PFS refuses of its owner and attributes.
    pub left_out: &'a [String],
    /// How many tries it took.
    pub attempts: u32,
    /// 0: none.
    pub errno: i32,
    /// What went wrong.
    pub message: &'a str,
}

/// What happened to a file.
pub(crate) struct Event<'a> {
    /// See [`Line::event`].
    pub event: &'static str,
    /// The path below the drained folder.
    pub path: &'a Path,
    /// The name on the PFS.
    pub target: &'a Path,
    /// Bytes.
    pub size: u64,
    /// CRC32C.
    pub crc32c: Option<u32>,
    /// See [`Line::sampled`].
    pub sampled: bool,
    /// See [`Line::left_out`].
    pub left_out: &'a [String],
    /// How many tries it took.
    pub attempts: u32,
    /// What went wrong.
    pub trouble: Option<&'a Trouble>,
}

impl Logs {
    /// Opens both to append.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn open(to: &Path, session: &Path, host: &str) -> std::io::Result<Logs> {
        let path = session.join(format!("{host}.jsonl"));
        let files = Files {
            spectral: Log::open(&to.join(SPECTRAL))?.of_spectral(&to.join(SPECTRAL))?,
            json: Log::open(&path)?.with_torn_end()?,
            path,
            broken: false,
        };
        Ok(Logs { host: host.to_owned(), output: Mutex::default(), files: Mutex::new(files) })
    }

    /// Adds one of Spectral's lines.
    pub(crate) fn spectral(&self, verb: Verb, target: &Path) {
        use std::os::unix::ffi::OsStrExt;
        let verb = match verb {
            Verb::Enqueue => "ENQUEUE",
            Verb::Dequeue => "DEQUEUE",
            Verb::Done => "DONE",
        };
        let mut output = self.lock();
        output.spectral.extend_from_slice(format!("{SPECTRAL_BEGIN}{verb} File : ").as_bytes());
        for byte in target.as_os_str().as_bytes() {
            // A line's end in a name would make lines of it that nobody has written.
            match byte.is_ascii_control() {
                true => output.spectral.extend(byte.escape_ascii()),
                false => output.spectral.push(*byte),
            }
        }
        output.spectral.push(b'\n');
    }

    /// Adds a line to the second log.
    pub(crate) fn json(&self, event: &Event<'_>) {
        let line = Line {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            event: event.event,
            host: &self.host,
            path: event.path.into(),
            target: event.target.into(),
            size: event.size,
            crc32c: event.crc32c.map(|sum| format!("{sum:08x}")),
            sampled: event.sampled,
            left_out: event.left_out,
            attempts: event.attempts,
            errno: event.trouble.map_or(0, |trouble| trouble.errno),
            message: event.trouble.map_or("", |trouble| &trouble.message),
        };
        let mut output = self.lock();
        match event.event {
            "failed" | "open" => output.undone.insert(event.path.to_owned()),
            _ => output.undone.remove(event.path),
        };
        serde_json::to_writer(&mut output.json, &line).expect("a line has no failing serialiser");
        output.json.push(b'\n');
    }

    /// Takes over that an earlier drainer has said so last of a file.
    pub(crate) fn remember_undone(&self, path: PathBuf) {
        self.lock().undone.insert(path);
    }

    /// The files of which it says last that they are not on the PFS.
    pub(crate) fn undone(&self) -> Vec<PathBuf> {
        self.lock().undone.iter().cloned().collect()
    }

    /// Opens the second log anew where another file has its name, or none: the receipt is made of what is there.
    ///
    /// # Errors
    /// The PFS's.
    pub(crate) fn replace_if_away(&self) -> std::io::Result<bool> {
        let mut files = self.files.lock().expect("no thread panics with the lock");
        let held = files.json.file.metadata()?;
        let there = disk::if_there(std::fs::symlink_metadata(&files.path))?;
        if there.is_some_and(|there| (held.dev(), held.ino()) == (there.dev(), there.ino())) {
            return Ok(false);
        }
        files.json = Log::open(&files.path)?.with_torn_end()?;
        Ok(true)
    }

    /// Writes what was added.
    ///
    /// # Errors
    /// Of the second log, which tells what is drained; its lines are tried again with the next.
    pub(crate) fn flush(&self) -> std::io::Result<()> {
        let mut files = self.files.lock().expect("no thread panics with the lock");
        let (spectral, json) = {
            let mut output = self.lock();
            (std::mem::take(&mut output.spectral), std::mem::take(&mut output.json))
        };
        // Each by itself: the receipt is made of the second, and a user may have moved the first away.
        let written = (files.spectral.write(&spectral), files.json.write(&json));
        let mut output = self.lock();
        let put_back = |lines: &mut Vec<u8>, taken: Vec<u8>| drop(lines.splice(..0, taken));
        if written.0.is_err() {
            put_back(&mut output.spectral, spectral);
        }
        if written.1.is_err() {
            put_back(&mut output.json, json);
        }
        drop(output);
        // The drain itself goes on: the ledger and the status say how far it is.
        let error = written.1.as_ref().err().or(written.0.as_ref().err());
        if let Some(error) = error.filter(|_| !files.broken) {
            tracing::warn!(
                "write spectral.log or the log in JSON lines: {error}; tried again with the next lines"
            );
        }
        files.broken = error.is_some();
        written.1.map_err(|error| {
            std::io::Error::new(error.kind(), format!("write the log {}: {error}", files.path.display()))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().expect("no thread panics with the lock")
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn who_adds_a_line_waits_for_no_file_system_that_hangs() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::open(folder.path(), folder.path(), "n1").unwrap();
        // A pipe takes no more than this, until somebody reads.
        let (mut reader, writer) = std::io::pipe().unwrap();
        logs.files.lock().unwrap().spectral.file = File::from(std::os::fd::OwnedFd::from(writer));
        let line = Path::new("/pfs/a");
        std::thread::scope(|scope| {
            (0..10_000).for_each(|_| logs.spectral(Verb::Enqueue, line));
            let flushed = scope.spawn(|| logs.flush());
            let begun = Instant::now();
            while !logs.lock().spectral.is_empty() {
                assert!(begun.elapsed() < Duration::from_secs(20), "nothing is written");
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(!flushed.is_finished());
            logs.spectral(Verb::Done, line);
            assert_eq!(logs.lock().spectral, b"Spectral Work DONE File : /pfs/a\n");
            let mut bytes = vec![0; 10_000 * "Spectral Work ENQUEUE File : /pfs/a\n".len()];
            reader.read_exact(&mut bytes).unwrap();
        });
    }
}
