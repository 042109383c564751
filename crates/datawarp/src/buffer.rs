//! A path's buffer, and what control is asked about it.

use std::path::Path;
use std::time::Duration;

use api::control::Control;
use api::mounted::Mounted;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::control::{PAIRS_MAX, Place, StageCounts, StageQuery, StageScope};

use crate::error::Error;

/// How long to keep asking a control that does not answer: as long as Slurm's own steps wait for it.
const RESTART: Duration = Duration::from_secs(240);

/// A reply takes milliseconds, or as long as was to be waited.
const REPLY: Duration = Duration::from_secs(60);

/// How long control holds back one reply; then it is asked again.
const WAIT_MS: u64 = 20_000;

/// A path in a buffer.
#[derive(Debug)]
pub struct InBuffer {
    /// The namespace.
    pub mounted: Mounted,
    /// The path below its root.
    pub path: String,
}

impl InBuffer {
    /// The buffer that a path is in.
    ///
    /// # Errors
    /// EINVAL: none. What the path cannot be looked up with.
    pub fn find(path: &Path) -> Result<InBuffer, Error> {
        let (mounted, path) = Mounted::of_path(path)?.ok_or(Errno::INVAL)?;
        Ok(InBuffer { mounted, path })
    }

    /// The same for a file that must be there and is no folder.
    ///
    /// # Errors
    /// ENOENT, EISDIR, and as [`InBuffer::find`].
    pub fn file(path: &Path) -> Result<InBuffer, Error> {
        let found = InBuffer::find(path)?;
        if path.metadata()?.is_dir() { Err(Errno::ISDIR.into()) } else { Ok(found) }
    }

    /// The same for a folder that must be there.
    ///
    /// # Errors
    /// ENOENT, ENOTDIR, and as [`InBuffer::find`].
    pub fn folder(path: &Path) -> Result<InBuffer, Error> {
        let found = InBuffer::find(path)?;
        if path.metadata()?.is_dir() { Ok(found) } else { Err(Errno::NOTDIR.into()) }
    }

    /// The paths of files that are all in one buffer, and that buffer.
    ///
    /// # Errors
    /// EXDEV: they are not. As `find`.
    pub fn of_list(
        list: &[impl AsRef<Path>],
        find: fn(&Path) -> Result<InBuffer, Error>,
    ) -> Result<(Mounted, Vec<String>), Error> {
        let found = list.iter().map(|path| find(path.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let first = found.first().ok_or(Errno::INVAL)?.mounted.clone();
        if found.iter().any(|file| file.mounted != first) {
            return Err(Errno::XDEV.into());
        }
        Ok((first, found.into_iter().map(|file| file.path).collect()))
    }

    /// The buffer of an open file.
    ///
    /// # Errors
    /// EBADF; ENODATA: it is in none, so that it has no layout.
    pub fn of_descriptor(fd: i32) -> Result<(Mounted, rustix::fs::Stat), Error> {
        let file = borrow(fd)?;
        let stat = rustix::fs::fstat(file)?;
        let mounted = Mounted::of_device(stat.st_dev)?.ok_or(Errno::NODATA)?;
        Ok((mounted, stat))
    }
}

/// Somebody else's descriptor, for one call.
///
/// # Errors
/// EBADF: it is none.
pub fn borrow(fd: i32) -> Result<std::os::fd::BorrowedFd<'static>, Error> {
    if fd < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: not -1. It is used for system calls only, which answer EBADF where it is not open.
    Ok(unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) })
}

/// `POST /v1/stages…`.
///
/// # Errors
/// Control's, or that nobody answers.
pub fn post<B: Serialize, R: DeserializeOwned>(what: &str, body: &B) -> Result<R, Error> {
    Ok(Control::of_program(RESTART, REPLY).post(&format!("/v1/stages{what}"), body)?)
}

/// As [`post`]; also whether control may have done it before, as an earlier reply was lost.
///
/// # Errors
/// As [`post`].
pub fn post_and_tell<B: Serialize, R: DeserializeOwned>(what: &str, body: &B) -> Result<(R, bool), Error> {
    Ok(Control::of_program(RESTART, REPLY).post_and_tell(&format!("/v1/stages{what}"), body)?)
}

/// Counts stages, also of what was removed since.
///
/// # Errors
/// As [`post`].
pub fn count(place: Place, scope: StageScope) -> Result<StageCounts, Error> {
    post("/query", &StageQuery { place, scope, wait_ms: 0, after: None })
}

/// Counts stages, of those that are complete only what is there: a file that was removed since is at no destination
/// here, and its stage is history.
///
/// # Errors
/// As [`post`], and what the buffer cannot be looked at with.
pub fn count_existing(mounted: &Mounted, scope: &StageScope) -> Result<StageCounts, Error> {
    let mut counts = count(mounted.place(), scope.clone())?;
    if counts.complete == 0 {
        return Ok(counts);
    }
    let (mut there, mut complete) = (existing(mounted, scope)?.into_iter().peekable(), 0);
    while there.peek().is_some() && complete < counts.complete {
        complete += known(mounted, there.by_ref().take(PAIRS_MAX).collect())?;
    }
    if let (StageScope::Directory(folder), 0) = (scope, complete) {
        // Whoever waits for a folder to be complete sees it also of one with no file in it.
        complete = known(mounted, vec![folder.clone()])?;
    }
    counts.complete = counts.complete.min(complete);
    Ok(counts)
}

/// How many of these paths were staged. Of a folder that is being copied some are complete, and nobody says which.
fn known(mounted: &Mounted, paths: Vec<String>) -> Result<u64, Error> {
    let counts = count(mounted.place(), StageScope::Files(paths))?;
    Ok(counts.complete + counts.pending + counts.failed)
}

/// The paths in the buffer of the files that `scope` names and that are there.
fn existing(mounted: &Mounted, scope: &StageScope) -> Result<Vec<String>, Error> {
    let root = &mounted.mountpoint;
    let (mut found, mut folders) = match scope {
        StageScope::Directory(path) => (vec![], vec![path.clone()]),
        StageScope::Files(paths) => {
            (paths.iter().filter(|path| !is_gone(&root.join(path))).cloned().collect(), vec![])
        }
        StageScope::Ids(_) | StageScope::All => (vec![], vec![String::new()]),
    };
    while let Some(folder) = folders.pop() {
        let entries = match root.join(&folder).read_dir() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            // Nothing else was asked for: control's requests are JSON.
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            match entry.file_type()?.is_dir() {
                true => folders.push(path),
                false => found.push(path),
            }
        }
    }
    Ok(found)
}

/// Counts stages when none is under way any more.
///
/// # Errors
/// As [`post`].
pub fn settled(place: &Place, scope: &StageScope) -> Result<StageCounts, Error> {
    let query = StageQuery { place: place.clone(), scope: scope.clone(), wait_ms: WAIT_MS, after: None };
    loop {
        let counts: StageCounts = post("/query", &query)?;
        if counts.pending == 0 {
            return Ok(counts);
        }
    }
}

/// Whether a file is in no folder any more, though its folder may be looked at.
pub fn is_gone(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}
