//! The manifest of a stage: what was copied and how it was checked, for its owner to keep beside the results.
//!
//! ```text
//! manifest := line* end                 a line of JSON each
//! line     := {"path","kind":"file","bytes","crc32c","mtime","attempts","verified","finished_ms"}
//!           | {"path","kind"}                                 anything else that is done
//!           | {"path","remark"} | {"path","failure","errno","side"}
//! end      := {"stage","state","entries","failed","bytes","bytes_verified"}
//! ```
//!
//! Paths are the target's: absolute on the PFS, below the root in a buffer; an array of bytes where they are not UTF-8.
//! Remarks and failures have them as status does.
//!
//! **Invariant:** under its name there is a manifest of a stage that was run to its end, or none.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use model::phase::StageState;
use serde::Serialize;
use wire::control::{ApiError, Blame, ErrorCode, FileFailure, Side, StageStatus};
use wire::data::FileKind;
use wire::node::Verify;

use crate::journal::{Finished, PathText};

/// A manifest that is being written; without a path all of it is ignored.
#[derive(Default)]
pub(crate) struct Manifest {
    path: Option<PathBuf>,
    part: PathBuf,
    output: Mutex<Output>,
}

#[derive(Default)]
struct Output {
    file: Option<BufWriter<File>>,
    /// The first error; what comes after it is not written.
    broken: Option<io::Error>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    File {
        path: PathText,
        kind: FileKind,
        bytes: u64,
        crc32c: String,
        /// Seconds and nanoseconds.
        mtime: (i64, u32),
        attempts: u32,
        verified: Verify,
        finished_ms: u64,
    },
    Entry {
        path: PathText,
        kind: FileKind,
    },
    Remark {
        path: &'a str,
        remark: &'a str,
    },
    Failure {
        path: &'a str,
        failure: &'a str,
        errno: i32,
        side: Side,
    },
    End {
        stage: &'a str,
        state: StageState,
        entries: u64,
        failed: u64,
        bytes: u64,
        bytes_verified: u64,
    },
}

impl Manifest {
    /// Begins a manifest that gets its name, `path` on the PFS, at the end.
    ///
    /// # Errors
    /// It cannot be made there.
    pub(crate) fn begin(path: Option<&Path>, stage: &str) -> Result<Manifest, ApiError> {
        let Some(path) = path else { return Ok(Manifest::default()) };
        let part = part_of(path, stage);
        // An earlier run's; what is in the way else is told by the next step.
        let _ = std::fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&part);
        let file = file.map_err(|error| cannot("make", path, &error))?;
        let output = Output { file: Some(BufWriter::new(file)), broken: None };
        Ok(Manifest { path: Some(path.to_owned()), part, output: Mutex::new(output) })
    }

    /// Removes what a killed run left of it.
    pub(crate) fn clear(path: Option<&Path>, stage: &str) {
        if let Some(path) = path {
            let _there_is_none = std::fs::remove_file(part_of(path, stage));
        }
    }

    /// A regular file is done.
    pub(crate) fn file(&self, path: &Path, done: &Finished) {
        self.add(|| Line::File {
            path: PathText::from(path),
            kind: FileKind::Regular,
            bytes: done.size,
            crc32c: format!("{:08x}", done.crc32c),
            mtime: (done.mtime.seconds, done.mtime.nanos),
            attempts: done.attempts,
            verified: done.verified,
            finished_ms: done.finished_ms,
        });
    }

    /// Anything else is done.
    pub(crate) fn entry(&self, path: &Path, kind: FileKind) {
        self.add(|| Line::Entry { path: PathText::from(path), kind });
    }

    pub(crate) fn remark(&self, path: &str, remark: &str) {
        self.add(|| Line::Remark { path, remark });
    }

    pub(crate) fn failure(&self, failure: &FileFailure) {
        let FileFailure { path, message, errno, side, .. } = failure;
        self.add(|| Line::Failure { path, failure: message, errno: *errno, side: *side });
    }

    /// The stage ends like this: the manifest gets its name.
    ///
    /// # Errors
    /// It could not be written as a whole.
    pub(crate) fn publish(&self, status: &StageStatus) -> Result<(), ApiError> {
        let Some(path) = &self.path else { return Ok(()) };
        let progress = &status.progress;
        self.add(|| Line::End {
            stage: &status.id,
            state: status.state,
            entries: progress.entries_done,
            failed: progress.entries_failed,
            bytes: progress.bytes_done,
            bytes_verified: progress.bytes_verified,
        });
        let mut output = self.lock();
        let written = match (output.broken.take(), output.file.take()) {
            (Some(error), _) => Err(error),
            (None, Some(file)) => {
                file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|f| f.sync_all())
            }
            (None, None) => Ok(()),
        };
        written
            .and_then(|()| std::fs::rename(&self.part, path))
            .and_then(|()| path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all()))
            .map_err(|error| cannot("write", path, &error))
    }

    fn add<'a>(&self, line: impl FnOnce() -> Line<'a>) {
        if self.path.is_none() {
            return;
        }
        let mut output = self.lock();
        let Some(file) = &mut output.file else { return };
        let mut text = serde_json::to_vec(&line()).expect("lines have no maps and no failing serialiser");
        text.push(b'\n');
        if let Err(error) = file.write_all(&text) {
            (output.file, output.broken) = (None, Some(error));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().expect("no thread panics with the lock")
    }
}

/// Where it is until it has its name.
fn part_of(path: &Path, stage: &str) -> PathBuf {
    path.with_file_name(format!(".forebay.{}.manifest.new", stage.replace('/', "_")))
}

impl Drop for Manifest {
    fn drop(&mut self) {
        if self.path.is_some() {
            // Gone already if it was published.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> ApiError {
    ApiError {
        code: ErrorCode::StageManifest,
        blame: Blame::User,
        message: format!("{verb} manifest {}: {error}", path.display()),
        advice: "name a manifest in a folder that is there and that you may write to, then retry the stage; files that \
                 are copied are not copied again"
            .to_owned(),
    }
}
