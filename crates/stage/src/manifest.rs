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

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use disk::below::{Place, Root, by_descriptor};
use model::phase::StageState;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use serde::Serialize;
use wire::control::{ApiError, Blame, ErrorCode, FileFailure, Side, StageStatus};
use wire::data::FileKind;
use wire::node::Verify;

use crate::journal::{Finished, PathText};

/// A manifest that is being written; without a path all of it is ignored.
#[derive(Default)]
pub(crate) struct Manifest {
    path: PathBuf,
    /// `None`: there is none.
    place: Option<Place>,
    part: OsString,
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
        let part = part_of(stage);
        let made = place_of(path).and_then(|place| {
            // An earlier run's; what is in the way else is told by the next step.
            let _ = unlinkat(&place.folder, &part, AtFlags::empty());
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = openat(&place.folder, &part, flags, Mode::from_raw_mode(0o644))?;
            Ok((place, File::from(file)))
        });
        let (place, file) = made.map_err(|errno| cannot("make", path, &errno.into()))?;
        let output = Output { file: Some(BufWriter::new(file)), broken: None };
        Ok(Manifest { path: path.to_owned(), place: Some(place), part, output: Mutex::new(output) })
    }

    /// Removes what a killed run left of it.
    pub(crate) fn clear(path: Option<&Path>, stage: &str) {
        if let Some(place) = path.and_then(|path| place_of(path).ok()) {
            let _there_is_none = unlinkat(&place.folder, part_of(stage), AtFlags::empty());
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
        let Some(place) = &self.place else { return Ok(()) };
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
            .and_then(|()| Ok(place.replace_with(&self.part)?))
            .and_then(|()| File::open(by_descriptor(&place.folder))?.sync_all())
            .map_err(|error| cannot("write", &self.path, &error))
    }

    fn add<'a>(&self, line: impl FnOnce() -> Line<'a>) {
        if self.place.is_none() {
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

/// The folder that it gets its name in, through whatever links its user has there.
fn place_of(path: &Path) -> rustix::io::Result<Place> {
    Root::hold(path.parent().unwrap_or(path))?.reach(path)
}

/// What it is called until it has its name.
fn part_of(stage: &str) -> OsString {
    format!(".forebay.{}.manifest.new", stage.replace('/', "_")).into()
}

impl Drop for Manifest {
    fn drop(&mut self) {
        if let Some(place) = &self.place {
            // Gone already if it was published.
            let _ = unlinkat(&place.folder, &self.part, AtFlags::empty());
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
