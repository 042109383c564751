//! A lock file that says "this folder is in use": held with `flock` until the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::{Pid, Signal, kill_process};

/// How often to try a lock that should be free soon.
const PERIOD: Duration = Duration::from_millis(10);

/// Holds the lock until dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

/// Why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error(
        "{path} is held by {}: two processes cannot use one folder; {}",
        who(.path, .holder),
        advice(.path, .holder)
    )]
    Held {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it.
        holder: String,
    },
    /// It was killed, and is still there.
    #[error(
        "{path} is still held by {}, which was killed: it waits in the kernel; end what it waits for (`cat \
         /proc/{holder}/stack` says more), as a file system that does not answer, or restart this machine",
        who(.path, .holder)
    )]
    Survives {
        /// The lock file.
        path: PathBuf,
        /// What the holder wrote into it.
        holder: String,
    },
    /// The file could not be opened or locked.
    #[error("lock {path}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Takes the lock `path` and writes our process id into it.
///
/// # Errors
/// [`LockError::Held`] at once when another process has it.
pub fn exclusive(path: &Path) -> Result<FolderLock, LockError> {
    let io = |source| LockError::Io { path: path.into(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // Root may be asked to look into a folder in which others have put one.
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(io)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let holder = disk::read(path).ok().flatten().unwrap_or_default();
            let holder = String::from_utf8_lossy(&holder).trim().to_owned();
            return Err(LockError::Held { path: path.into(), holder });
        }
        Err(errno) => return Err(io(errno.into())),
    }
    // In place, which takes no room where there was a holder before: a full disk keeps nobody from starting.
    let holder = format!("{}\n", std::process::id());
    file.write_all_at(holder.as_bytes(), 0).and_then(|()| file.set_len(holder.len() as u64)).map_err(io)?;
    Ok(FolderLock { _file: file })
}

/// The same; a holder is waited for as long as `patience`. One that was killed holds it until the kernel has taken down
/// what it had, which may be much memory, or has finished a write to a slow disk.
///
/// # Errors
/// [`LockError::Held`] after that.
pub fn exclusive_within(path: &Path, patience: Duration) -> Result<FolderLock, LockError> {
    let mut is_told = false;
    retry(path, patience, |holder| {
        if !std::mem::replace(&mut is_told, true) {
            tracing::info!(
                "wait for {}, which holds {}: it may be ending",
                who(path, holder),
                path.display()
            );
        }
    })
}

/// Who holds the lock `path` that is no process here, by its own numbering: one of another host, or of a container.
pub fn distant_holder(path: &Path) -> Option<String> {
    match exclusive(path) {
        Err(LockError::Held { holder, .. }) if holder.parse::<u32>().is_ok() && !has_open(path, &holder) => {
            Some(holder)
        }
        _ => None,
    }
}

/// Takes the lock `path` from whoever has it: the holder is killed. For work that a successor takes over from a
/// predecessor of whom nobody knows whether it has ended.
///
/// # Errors
/// [`LockError::Survives`] when the holder has not gone after ten seconds.
pub fn take_over(path: &Path) -> Result<FolderLock, LockError> {
    let taken = retry(path, Duration::from_secs(10), |holder| {
        // While the lock is held its holder lives, so the number is its own; a holder that has just come has not
        // written it yet.
        if let Some(process) = holder.parse().ok().and_then(Pid::from_raw) {
            tracing::warn!(path = %path.display(), holder, "end the predecessor");
            // It may have ended by itself in this moment.
            let _ended = kill_process(process, Signal::KILL);
        }
    });
    taken.map_err(|error| match error {
        LockError::Held { path, holder } => LockError::Survives { path, holder },
        other => other,
    })
}

/// Tries as long as `patience`; `held` is told each time what the holder wrote.
fn retry(path: &Path, patience: Duration, mut held: impl FnMut(&str)) -> Result<FolderLock, LockError> {
    let give_up = Instant::now() + patience;
    loop {
        match exclusive(path) {
            Err(LockError::Held { holder, .. }) if Instant::now() < give_up => held(&holder),
            other => return other,
        }
        std::thread::sleep(PERIOD);
    }
}

/// Who wrote `holder` into the lock file `path`.
fn who(path: &Path, holder: &str) -> String {
    if holder.parse::<u32>().is_err() {
        return "another process, which has not written its number yet".to_owned();
    }
    match std::fs::read_to_string(format!("/proc/{holder}/comm")) {
        Ok(name) if has_open(path, holder) => format!("process {holder} ({})", name.trim().escape_debug()),
        _ => format!("process {holder}, by its own numbering"),
    }
}

fn advice(path: &Path, holder: &str) -> String {
    if has_open(path, holder) {
        format!("if it is not to go on, end it (`kill {holder}`), then try again")
    } else {
        "if it is not to go on, end it (it may be in a container), then try again".to_owned()
    }
}

/// Whether the process of that number here has the lock file open: in a container it has another number.
fn has_open(path: &Path, holder: &str) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let open = std::fs::read_dir(format!("/proc/{holder}/fd")).into_iter().flatten().flatten();
    open.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|file| file == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_refused_and_told_who_the_first_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.lock");
        let first = exclusive(&path).unwrap();
        let refused = exclusive(&path).unwrap_err();
        assert!(
            matches!(refused, LockError::Held { holder, .. } if holder == std::process::id().to_string())
        );
        drop(first);
        // A process that another test is just starting has the descriptor, too, until its exec.
        let free = || exclusive(&path).map_err(|_| std::thread::sleep(std::time::Duration::from_millis(10)));
        assert!((0..1000).any(|_| free().is_ok()), "nobody holds it");
    }

    #[test]
    fn a_link_in_the_place_of_a_lock_leads_to_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let [lock, other] = ["lock", "other"].map(|name| dir.path().join(name));
        std::fs::write(&other, "somebody's").unwrap();
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        exclusive(&lock).unwrap_err();
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "somebody's");
    }

    #[test]
    fn a_successor_ends_a_holder_that_stands_still() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.lock");
        let script = "echo $$ > \"$0\"; flock -n 9 || exit 1; exec 8>\"$0.taken\"; kill -STOP $$";
        let mut holder = std::process::Command::new("sh")
            .args(["-c", &format!("exec 9>>\"$0\"; {script}")])
            .arg(&path)
            .spawn()
            .unwrap();
        while !disk::exists(&dir.path().join("journal.lock.taken")).unwrap() {
            std::thread::sleep(Duration::from_millis(5));
        }
        take_over(&path).unwrap();
        assert!(!holder.wait().unwrap().success());
    }
}
