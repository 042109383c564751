//! What `forebay run` writes down about the script that it runs, `DIR/run/TOKEN.json`, so that a later `forebay` knows
//! what an interrupted one was doing; and the lock, `DIR/run/TOKEN.lock`, that says whether one is still at it.
//!
//! **Invariant:** the record is replaced whole (write, fsync, rename), and only by the holder of the lock; one that
//! cannot be read or understood is an error, never "there is none".

use std::path::{Path, PathBuf};

use daemon::lock::{FolderLock, LockError};
use serde::{Deserialize, Serialize};
use wire::control::{Script, VolumeKind};

use crate::exit_code::{ExitCode, JobExit};
use crate::failure::Failure;
use crate::process::Group;

/// The format's version.
const SCHEMA: u32 = 1;

/// How far the job's script has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state")]
pub enum Job {
    /// It was never started: the buffer holds nothing but what was staged in.
    NotStarted,
    /// It was started, and its end is not known.
    Started {
        /// Its processes; `None` between the decision to start it and its start.
        group: Option<Group>,
    },
    /// It has ended.
    Ended {
        /// How.
        exit: JobExit,
        /// Milliseconds that it ran.
        elapsed_ms: u64,
    },
}

/// A script that `forebay run` runs. On disk as JSON; our own file, read only by us.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// The format's version.
    pub schema: u32,
    /// The session.
    pub token: String,
    /// The `forebay run` that wrote this last.
    pub forebay_pid: u32,
    /// The script as it was when it was submitted. (A wire type on disk: this file is for our own restart only.)
    pub script: Script,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// `SLURM_SUBMIT_DIR`.
    pub submit_folder: PathBuf,
    /// `#SBATCH --ntasks`.
    pub ntasks: Option<u32>,
    /// `--nodes`.
    pub fragments: Option<u32>,
    /// `--volume`.
    pub volume: Option<VolumeKind>,
    /// `--keep`.
    pub keep: bool,
    /// The script's progress.
    pub job: Job,
    /// Set before the buffer is given up: a session that is gone then was torn down, not lost.
    pub releasing: bool,
}

impl RunRecord {
    /// A record of a script that has not been started.
    pub fn new(token: String, script: Script, submit_folder: PathBuf) -> RunRecord {
        RunRecord {
            schema: SCHEMA,
            token,
            forebay_pid: std::process::id(),
            script,
            arguments: Vec::new(),
            submit_folder,
            ntasks: None,
            fragments: None,
            volume: None,
            keep: false,
            job: Job::NotStarted,
            releasing: false,
        }
    }

    /// `NAME=VALUE` marks in the environment of every process of the job.
    pub fn marks(&self, state_folder: &Path) -> Vec<String> {
        vec![format!("FOREBAY_DIR={}", state_folder.display()), format!("FOREBAY_TOKEN={}", self.token)]
    }

    /// Processes of the job that an interrupted `forebay run` left alive.
    pub fn leftover(&self, state_folder: &Path) -> Option<&Group> {
        match &self.job {
            Job::Started { group: Some(group) } if group.alive(&self.marks(state_folder)) => Some(group),
            _ => None,
        }
    }
}

/// The folder of records, `DIR/run`.
#[derive(Clone, Debug)]
pub struct Records {
    folder: PathBuf,
}

/// The right to work on one session. Ends with the process.
#[derive(Debug)]
pub struct RunLock {
    _lock: FolderLock,
}

impl Records {
    /// Opens `DIR/run`; makes it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(state_folder: &Path) -> Result<Records, Failure> {
        let folder = state_folder.join("run");
        std::fs::create_dir_all(&folder).map_err(|e| Failure::local("make", &folder, &e))?;
        Ok(Records { folder })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the lock of `token`.
    ///
    /// # Errors
    /// `Busy` at once where a living `forebay` has it.
    pub fn lock(&self, token: &str) -> Result<RunLock, Failure> {
        let path = self.folder.join(format!("{token}.lock"));
        match daemon::lock::exclusive(&path) {
            Ok(lock) => Ok(RunLock { _lock: lock }),
            Err(LockError::Held { holder, .. }) => Err(Failure::Refused {
                exit: ExitCode::Busy,
                message: format!("session {token} is still being run by process {holder}"),
                advice: format!("wait for it, or end it with `kill {holder}`, then repeat the command"),
            }),
            Err(LockError::Io { source, .. }) => Err(Failure::local("lock", &path, &source)),
        }
    }

    /// Whether a living `forebay` works on `token`. Makes no lock file.
    pub fn is_live(&self, token: &str) -> bool {
        disk::exists(&self.folder.join(format!("{token}.lock"))).unwrap_or(true)
            && matches!(self.lock(token), Err(Failure::Refused { exit: ExitCode::Busy, .. }))
    }

    /// The record of `token`; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read or understood: nobody knows how far its job is.
    pub fn read(&self, token: &str) -> Result<Option<RunRecord>, Failure> {
        let path = self.record_path(token);
        let text = disk::read(&path).map_err(|e| Failure::local("read", &path, &e))?;
        let Some(text) = text else { return Ok(None) };
        let record: Result<RunRecord, _> = serde_json::from_slice(&text);
        match record {
            Ok(record) if record.schema == SCHEMA => Ok(Some(record)),
            Ok(record) => Err(Self::not_understood(&path, &format!("its schema is {}", record.schema))),
            Err(error) => Err(Self::not_understood(&path, &error.to_string())),
        }
    }

    fn not_understood(path: &Path, why: &str) -> Failure {
        Failure::unavailable(
            format!("understand {}, what an interrupted run was at: {why}", path.display()),
            format!(
                "use the release of Forebay that ran it; or give the run up with `rm {path}`: its buffer is kept until \
                 `forebay rm {token}`",
                token = path.file_stem().unwrap_or_default().to_string_lossy(),
                path = path.display()
            ),
        )
    }

    /// Replaces the record. `_lock` is the proof that nobody else does.
    ///
    /// # Errors
    /// The disk refused.
    pub fn write(&self, _lock: &RunLock, record: &RunRecord) -> Result<(), Failure> {
        let path = self.record_path(&record.token);
        let text = serde_json::to_vec_pretty(record).expect("a record has only string keys");
        disk::replace(&path, &text).map_err(|e| Failure::local("write", &path, &e))
    }

    /// Forgets a session that is no more.
    pub fn remove(&self, lock: RunLock, token: &str) {
        for kind in ["json", "new", "script", "lock"] {
            // What stays behind says nothing wrong: the session that it names is torn down.
            let _ = std::fs::remove_file(self.folder.join(format!("{token}.{kind}")));
        }
        drop(lock);
    }

    /// Every record, newest session first.
    ///
    /// # Errors
    /// As [`Records::read`].
    pub fn all(&self) -> Result<Vec<RunRecord>, Failure> {
        let failed = |e| Failure::local("list", &self.folder, &e);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.folder).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            if let Some(token) = name.to_str().and_then(|name| name.strip_suffix(".json")) {
                found.extend(self.read(token)?);
            }
        }
        // Tokens are numbers that grow: the longer one is the newer.
        found.sort_by(|a, b| (b.token.len(), &b.token).cmp(&(a.token.len(), &a.token)));
        Ok(found)
    }

    fn record_path(&self, token: &str) -> PathBuf {
        self.folder.join(format!("{token}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        Script {
            text: "#!/bin/sh\n".into(),
            path: "/a/job.sh".into(),
            workdir: "/a".into(),
            job_name: "job".into(),
            user: "u".into(),
        }
    }

    #[test]
    fn a_record_comes_back_as_it_was_written_and_the_newest_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        for token in ["9", "10", "2"] {
            let mut record = RunRecord::new(token.into(), script(), "/a".into());
            record.job = Job::Ended { exit: JobExit::Signal(9), elapsed_ms: 5 };
            records.write(&records.lock(token).unwrap(), &record).unwrap();
        }
        let tokens: Vec<String> = records.all().unwrap().into_iter().map(|record| record.token).collect();
        assert_eq!(tokens, ["10", "9", "2"]);
        assert_eq!(
            records.read("9").unwrap().unwrap().job,
            Job::Ended { exit: JobExit::Signal(9), elapsed_ms: 5 }
        );
    }

    #[test]
    fn a_session_that_is_being_run_is_refused_with_the_process_that_runs_it() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let held = records.lock("3").unwrap();
        let refused = records.lock("3").unwrap_err();
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())));
        assert!(records.is_live("3"));
        records.remove(held, "3");
        assert!(!records.is_live("3"));
        assert!(!disk::exists(&folder.path().join("run/3.lock")).unwrap());
    }

    #[test]
    fn a_half_written_record_does_not_replace_the_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(folder.path()).unwrap();
        let lock = records.lock("4").unwrap();
        records.write(&lock, &RunRecord::new("4".into(), script(), "/a".into())).unwrap();
        std::fs::write(folder.path().join("run/4.new"), "{\"tok").unwrap();
        assert_eq!(records.read("4").unwrap().unwrap().script, script());
        assert_eq!(records.all().unwrap().len(), 1);
    }
}
