//! Copies of the database: `forebay-control backup`, while control runs, and `restore`, while it does not.
//!
//! **Invariant:** a file that bears the asked-for name is whole, checked, and synced; what a restore replaces is kept.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, lchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daemon::lock::{self, LockError};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::state::{self, StateError};

/// How long changes of control may keep the copy from being begun: each takes milliseconds.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// There is nothing to copy.
    #[error(
        "there is no database {}: --config FILE names the configuration of a cluster's control, --dir FOLDER one \
         machine's state folder",
        path.display()
    )]
    NoDatabase {
        /// Which.
        path: PathBuf,
    },
    /// The copy to restore is not there.
    #[error("there is no copy {}: check the name", path.display())]
    NoCopy {
        /// Which.
        path: PathBuf,
    },
    /// Something would be replaced.
    #[error(
        "there is a database {0} already, which may know more than the copy; `--replace` puts the copy in its place \
         and keeps it as {0}-replaced",
        path.display()
    )]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// Control runs.
    #[error("control must not run: stop it first, as with `systemctl stop forebay-control`")]
    Lock(#[from] LockError),
    /// A database.
    #[error(transparent)]
    State(#[from] StateError),
    /// Control has changed it all the time.
    #[error("{} was in use for {} s: try again when control has less to do", path.display(), BEGUN_WITHIN.as_secs())]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// A file.
    #[error("{operation} {}", path.display())]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

type Result<T> = std::result::Result<T, BackupError>;

/// Copies the database of the state folder `folder` to `file`, and takes the place of an older copy. Control may run.
///
/// # Errors
/// See [`BackupError`]; an older copy is still there then.
pub fn backup(folder: &Path, file: &Path) -> Result<()> {
    let database = folder.join("control.db");
    if !is_there(&database)? {
        return Err(BackupError::NoDatabase { path: database });
    }
    let part = with_end(file, ".part");
    copy(&database, &part)?;
    rename(&part, file)
}

/// Puts the copy `file` in the place of the database of `folder`; with `replace` also where there is one.
///
/// # Errors
/// See [`BackupError`]; what was there is untouched then.
pub fn restore(folder: &Path, file: &Path, replace: bool) -> Result<()> {
    if !is_there(file)? {
        return Err(BackupError::NoCopy { path: file.into() });
    }
    let _lock = lock::exclusive(&folder.join("control.lock"))?;
    let database = folder.join("control.db");
    let exists = is_there(&database)?;
    if exists && !replace {
        return Err(BackupError::Exists { path: database });
    }
    let part = with_end(&database, ".part");
    copy(file, &part)?;
    let owner = fs::metadata(folder).map_err(tried("look up", folder))?;
    // Also the lock: root may be the first who took it.
    for file in [&part, &folder.join("control.lock")] {
        lchown(file, Some(owner.uid()), Some(owner.gid())).map_err(tried("give to control's user", file))?;
    }
    if exists {
        keep(&database)?;
    }
    rename(&part, &database)
}

/// Keeps the database under another name. Its journal goes with it, by the name that SQLite gives it: it would be taken
/// for that of the copy, and what it says be undone there.
fn keep(database: &Path) -> Result<()> {
    let kept = with_end(database, "-replaced");
    remove(&kept)?;
    fs::hard_link(database, &kept).map_err(tried("keep", database))?;
    let (journal, kept_journal) = (with_end(database, "-journal"), with_end(&kept, "-journal"));
    remove(&kept_journal)?;
    match fs::rename(&journal, &kept_journal) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(tried("keep", &journal)(error)),
        _ => Ok(()),
    }
}

/// A copy of a database, as it is between two changes: whole, checked and synced. Only its owner can read it, as it has
/// keys.
fn copy(from: &Path, to: &Path) -> Result<()> {
    remove(to)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to);
    let made = made.map_err(tried("make", to))?;
    let copied = fill(from, to).and_then(|()| made.sync_all().map_err(tried("fsync", to)));
    if copied.is_err() {
        // The error says more than that this could not be removed.
        let _ = fs::remove_file(to);
    }
    copied
}

fn fill(from: &Path, to: &Path) -> Result<()> {
    // For writing: a change that was cut short is taken back first.
    let source =
        Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(StateError::from)?;
    let mut target = Connection::open(to).map_err(StateError::from)?;
    let begun = Instant::now();
    {
        let backup = Backup::new(&source, &mut target).map_err(StateError::from)?;
        // In one step: a change between two of them would have the copy begun anew.
        while backup.step(-1).map_err(StateError::from)? != StepResult::Done {
            if begun.elapsed() > BEGUN_WITHIN {
                return Err(BackupError::Busy { path: from.into() });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok(state::check_known(&target, from)?)
}

fn is_there(path: &Path) -> Result<bool> {
    disk::exists(path).map_err(tried("look up", path))
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(tried("make", to))?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(tried("fsync", folder))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(tried("remove", path)(error)),
        _ => Ok(()),
    }
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

fn tried(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError {
    let path = path.to_owned();
    move |source| BackupError::Io { operation, path, source }
}

#[cfg(test)]
mod tests;
