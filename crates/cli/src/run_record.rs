//! What `forebay run` writes down about the script that it runs, `DIR/run/TOKEN.json`, so that a later `forebay` knows
//! what an interrupted one was doing; and the lock, `DIR/run/TOKEN.lock`, that says whether one is still at it.
//!
//! Both need a little of a disk that the job may fill: `DIR/run/room` keeps that, for its end to be noted.
//!
//! **Invariant:** the record is replaced whole (write, fsync, rename), and only by the holder of the lock; one that
//! cannot be read or understood is an error, never "there is none".

mod decode;
mod session;
mod steps;

use std::path::{Path, PathBuf};

use daemon::lock::{FolderLock, LockError};
use disk::Room;
use model::{NodeName, Token, symbols};
use serde::{Deserialize, Serialize};
use wire::control::{DataOut, Script, VolumeKind};

use crate::directives::Added;
use crate::exit_code::{ExitCode, JobExit};
use crate::failure::Failure;
use crate::process::Group;

pub use self::steps::next_step;

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

impl Job {
    /// What control is told of it when its output is staged out.
    pub fn data_out(&self) -> DataOut {
        DataOut { job_failed: matches!(self, Job::Ended { exit, .. } if !exit.succeeded()) }
    }
}

/// One task of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayTask {
    /// The session of its first task: `SLURM_ARRAY_JOB_ID`.
    pub job_id: Token,
    /// `SLURM_ARRAY_TASK_ID`.
    pub task: u32,
    /// All of the array, as `--array` takes it.
    pub list: String,
}

/// A script that `forebay run` runs. On disk as JSON; our own file, read only by us.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunRecord {
    /// The format's version.
    pub schema: u32,
    /// The session.
    pub token: Token,
    /// When control registered the session; `None`: not yet, or by an older release. See [`RunRecord::is_of`].
    #[serde(default)]
    pub session_created_unix: Option<u64>,
    /// The `forebay run` that wrote this last.
    pub forebay_pid: u32,
    /// The script as it was when it was submitted.
    #[serde(with = "kept::form")]
    pub script: Script,
    /// What options add to its directives.
    #[serde(default)]
    pub added: Added,
    /// There is no script: `arguments` are a command, and `script` says where its program is.
    #[serde(default)]
    pub is_command: bool,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// `SLURM_SUBMIT_DIR`.
    pub submit_folder: PathBuf,
    /// Which task of an array it is, if any.
    #[serde(default)]
    pub array_task: Option<ArrayTask>,
    /// `--nodes`.
    pub fragments: Option<u32>,
    /// The hosts of its allocation; none: all is on this one.
    #[serde(default)]
    pub hosts: Vec<NodeName>,
    /// `--volume`.
    #[serde(default, with = "kept::form")]
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
    pub fn new(token: Token, script: Script, submit_folder: PathBuf) -> RunRecord {
        RunRecord {
            schema: SCHEMA,
            token,
            session_created_unix: None,
            forebay_pid: std::process::id(),
            script,
            added: Added::default(),
            is_command: false,
            arguments: Vec::new(),
            submit_folder,
            array_task: None,
            fragments: None,
            hosts: Vec::new(),
            volume: None,
            keep: false,
            job: Job::NotStarted,
            releasing: false,
        }
    }

    /// What it runs, as its user calls it.
    pub fn what(&self) -> &'static str {
        if self.is_command { "command" } else { "script" }
    }

    /// Said where it is started again.
    pub fn begun_again(&self) -> String {
        let what = self.what();
        format!("forebay: the {what} was interrupted; it runs again from its start on the buffer as it is")
    }

    /// The script as control is told of it.
    pub fn submitted(&self) -> Script {
        let text = self.added.to(&self.script.text);
        let mut script = Script { text, ..self.script.clone() };
        if let Some(array) = &self.array_task {
            script.text = symbols::for_array_task(&script.text, array.job_id.as_str(), array.task);
        }
        script
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
#[derive(Debug)]
pub struct Records {
    folder: PathBuf,
    room: Room,
}

/// The right to work on one session. Ends with the process.
#[derive(Debug)]
pub struct RunLock {
    _lock: FolderLock,
}

impl Records {
    /// Opens `DIR/run`; makes it if it is missing, and sets some room aside in it.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn open(state_folder: &Path) -> Result<Records, Failure> {
        let folder = state_folder.join("run");
        disk::state::make_inside(&folder).map_err(|e| Failure::local("make", &folder, &e))?;
        let room = Room::of(&folder);
        room.take();
        Ok(Records { folder, room })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Takes the lock of `token`.
    ///
    /// # Errors
    /// `Busy` at once where a living `forebay` has it.
    pub fn lock(&self, token: &Token) -> Result<RunLock, Failure> {
        let path = self.folder.join(format!("{token}.lock"));
        self.exclusive(&path).map(|lock| RunLock { _lock: lock }).map_err(|error| match error {
            LockError::Io { source, .. } => Failure::local("lock", &path, &source),
            LockError::Held { holder, .. } | LockError::Survives { holder, .. } => Failure::Refused {
                exit: ExitCode::Busy,
                message: format!("session {token} is still being run by process {holder}"),
                advice: format!("wait for it, or end it with `kill {holder}`, then repeat the command"),
            },
        })
    }

    /// The lock, also where the disk is full and it was never held before.
    fn exclusive(&self, path: &Path) -> Result<FolderLock, LockError> {
        let mut taken = None;
        let full = self.room.or_give_up(|| match daemon::lock::exclusive(path) {
            Err(LockError::Io { source, .. }) => Err(source),
            other => {
                taken = Some(other);
                Ok(())
            }
        });
        taken.unwrap_or_else(|| {
            let source = full.err().unwrap_or_else(|| std::io::ErrorKind::Other.into());
            Err(LockError::Io { path: path.into(), source })
        })
    }

    /// Whether a living `forebay` works on `token`. Makes no lock file.
    pub fn is_live(&self, token: &Token) -> bool {
        disk::exists(&self.folder.join(format!("{token}.lock"))).unwrap_or(true)
            && matches!(self.lock(token), Err(Failure::Refused { exit: ExitCode::Busy, .. }))
    }

    /// The record of `token`; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read or understood: nobody knows how far its job is.
    pub fn read(&self, token: &Token) -> Result<Option<RunRecord>, Failure> {
        let path = self.record_path(token);
        let text = disk::read(&path).map_err(|e| Failure::local("read", &path, &e))?;
        let read = text.map(|text| decode::decode(&text)).transpose();
        read.map_err(|error| decode::not_understood(&path, &error))
    }

    /// Replaces the record. `_lock` is the proof that nobody else does.
    ///
    /// # Errors
    /// The disk refused.
    pub fn write(&self, _lock: &RunLock, record: &RunRecord) -> Result<(), Failure> {
        let path = self.record_path(&record.token);
        let text = serde_json::to_vec_pretty(record).expect("a record has only string keys");
        let written = self.room.or_give_up(|| disk::replace(&path, &text));
        written.map_err(|e| Failure::local("write", &path, &e))
    }

    /// Forgets a session that is no more.
    pub fn remove(&self, lock: RunLock, token: &Token) {
        for kind in ["json", "new", "script", "steps", "lock"] {
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
                found.extend(self.read(&Token::unchecked(token))?);
            }
        }
        // Tokens are numbers that grow: the longer one is the newer.
        found.sort_by(|a, b| (b.token.as_str().len(), &b.token).cmp(&(a.token.as_str().len(), &a.token)));
        Ok(found)
    }

    /// Where the record of `token` is.
    pub fn record_path(&self, token: &Token) -> PathBuf {
        self.folder.join(format!("{token}.json"))
    }
}

#[cfg(test)]
mod tests;
