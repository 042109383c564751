//! The two logs in the PFS folder: Spectral's, for all nodes, and one in JSON lines for each node.
//!
//! ```text
//! TO/spectral.log                          Spectral Work ENQUEUE File : DESTINATION
//!                                          Spectral Work DEQUEUE File : DESTINATION
//!                                          Spectral Work DONE File : DESTINATION
//! TO/.forebay-drain/SESSION/HOST.jsonl     {"time","event","host","path","target","size","crc32c","attempts","errno","message"}
//! ```
//!
//! Lines are written in whole groups, with append, so that those of several nodes do not mix.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use serde::Serialize;

use crate::status::Trouble;

/// Both logs.
pub struct Logs {
    host: String,
    output: Mutex<Output>,
}

struct Output {
    spectral: File,
    json: File,
    spectral_lines: Vec<u8>,
    json_lines: Vec<u8>,
    broken: bool,
}

/// Where a file is on its way, in Spectral's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It is to be copied.
    Enqueue,
    /// It is being copied.
    Dequeue,
    /// It is on the PFS, verified.
    Done,
}

/// A line of the second log.
#[derive(Debug, Serialize)]
pub struct Line<'a> {
    /// RFC 3339, UTC.
    pub time: String,
    /// `done`, `failed`, `open` or `removed`.
    pub event: &'static str,
    /// The node.
    pub host: &'a str,
    /// The path below the drained folder.
    pub path: &'a str,
    /// The name on the PFS.
    pub target: &'a str,
    /// Bytes.
    pub size: u64,
    /// CRC32C, eight hexadecimal digits.
    pub crc32c: Option<String>,
    /// How many tries it took.
    pub attempts: u32,
    /// 0: none.
    pub errno: i32,
    /// What went wrong.
    pub message: &'a str,
}

/// What happened to a file.
pub struct Event<'a> {
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
    pub fn open(to: &Path, session: &Path, host: &str) -> std::io::Result<Logs> {
        let append = |path: &Path| File::options().append(true).create(true).open(path);
        let output = Output {
            spectral: append(&to.join("spectral.log"))?,
            json: append(&session.join(format!("{host}.jsonl")))?,
            spectral_lines: Vec::new(),
            json_lines: Vec::new(),
            broken: false,
        };
        Ok(Logs { host: host.to_owned(), output: Mutex::new(output) })
    }

    /// Adds one of Spectral's lines.
    pub fn spectral(&self, verb: Verb, target: &Path) {
        use std::os::unix::ffi::OsStrExt;
        let verb = match verb {
            Verb::Enqueue => "ENQUEUE",
            Verb::Dequeue => "DEQUEUE",
            Verb::Done => "DONE",
        };
        let mut output = self.lock();
        output.spectral_lines.extend_from_slice(format!("Spectral Work {verb} File : ").as_bytes());
        output.spectral_lines.extend_from_slice(target.as_os_str().as_bytes());
        output.spectral_lines.push(b'\n');
    }

    /// Adds a line to the second log.
    pub fn json(&self, event: &Event<'_>) {
        let line = Line {
            time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            event: event.event,
            host: &self.host,
            path: &event.path.to_string_lossy(),
            target: &event.target.to_string_lossy(),
            size: event.size,
            crc32c: event.crc32c.map(|sum| format!("{sum:08x}")),
            attempts: event.attempts,
            errno: event.trouble.map_or(0, |trouble| trouble.errno),
            message: event.trouble.map_or("", |trouble| &trouble.message),
        };
        let mut output = self.lock();
        serde_json::to_writer(&mut output.json_lines, &line).expect("a line has no failing serialiser");
        output.json_lines.push(b'\n');
    }

    /// Writes what was added.
    pub fn flush(&self) {
        let mut output = self.lock();
        let output = &mut *output;
        let written = write(&mut output.spectral, &mut output.spectral_lines)
            .and_then(|()| write(&mut output.json, &mut output.json_lines));
        // The drain itself goes on: the ledger and the status say how far it is.
        if let Err(error) = &written
            && !output.broken
        {
            tracing::warn!(
                "write spectral.log or the log in JSON lines: {error}; tried again with the next lines"
            );
        }
        output.broken = written.is_err();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Output> {
        self.output.lock().expect("no thread panics with the lock")
    }
}

fn write(file: &mut File, lines: &mut Vec<u8>) -> std::io::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    file.write_all(lines)?;
    lines.clear();
    Ok(())
}
