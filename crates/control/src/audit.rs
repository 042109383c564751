//! Who did what with whose data: a line of JSON for each request that changes something, allowed or refused, and for
//! each transfer that ended. Control itself never reads it.
//!
//! Refusals of a user that come by the hundred are one line with their number, so that he cannot fill it.
//!
//! Each line is one write to the end of the file that has the name then, so that the file may be renamed at any time.

mod refusals;

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use model::Token;
use model::phase::{Direction, StageState};
use serde::Serialize;
use server::Caller;
use wire::control::StageStatus;

use self::refusals::Refusals;
use crate::state::sessions::Session;
use crate::state::transfers::Transfer;

/// The log, where the site wants one.
#[derive(Default)]
pub(crate) struct Audit {
    path: Option<PathBuf>,
    refusals: Mutex<Refusals>,
}

#[derive(Serialize)]
struct Line<'a> {
    /// When it ended, RFC 3339.
    time: String,
    #[serde(flatten)]
    event: Event<'a>,
}

/// What is written down.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event<'a> {
    Request(RequestEnd<'a>),
    /// Further requests of the user that were refused within 10 s.
    Refusals {
        uid: u32,
        count: u64,
    },
    Transfer {
        /// Of which session.
        token: &'a Token,
        /// For which job, if it is known.
        job: Option<&'a Token>,
        /// With whose rights.
        uid: u32,
        direction: Direction,
        /// Below the root of the buffer.
        buffer_path: &'a str,
        pfs_path: Cow<'a, str>,
        state: StageState,
        /// Of all that were copied together.
        files: u64,
        bytes: u64,
    },
}

/// A request that was answered, or not waited for.
#[derive(Serialize)]
pub(crate) struct RequestEnd<'a> {
    /// Who asked.
    #[serde(flatten)]
    pub who: Option<Who>,
    /// What.
    pub method: &'a str,
    pub path: &'a str,
    /// Of which session, and whose that is.
    #[serde(flatten)]
    pub concerned: Option<Concerned>,
    /// HTTP's status; `None`: who asked hung up before the answer.
    pub status: Option<u16>,
    /// Why it was refused or failed.
    pub error: Option<&'a str>,
}

/// Who asks.
#[derive(Serialize)]
pub(crate) struct Who {
    uid: u32,
    gid: u32,
}

/// A session. Handlers whose path does not name it put it into what they answer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Concerned {
    /// Its token.
    pub token: Token,
    /// Its owner's user id.
    pub owner: u32,
}

impl From<&Session> for Concerned {
    fn from(session: &Session) -> Concerned {
        Concerned { token: session.token.clone(), owner: session.owner.uid }
    }
}

impl From<Caller> for Who {
    fn from(caller: Caller) -> Who {
        Who { uid: caller.uid, gid: caller.gid }
    }
}

impl Audit {
    /// Into this file, or nowhere.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn open(path: Option<PathBuf>) -> io::Result<Audit> {
        path.iter().try_for_each(|path| append(path, &[]))?;
        Ok(Audit { path, refusals: Mutex::default() })
    }

    /// Whether the site wants one.
    pub(crate) fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// A request was answered.
    pub(crate) fn request(&self, end: RequestEnd<'_>) {
        if self.has_line(&end) {
            self.write(Event::Request(end));
        }
    }

    /// What may have changed something has one, and all that root asks for.
    fn has_line(&self, end: &RequestEnd<'_>) -> bool {
        let now = Instant::now();
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let over = refusals.over(now);
        let is_refused = end.status.is_some_and(|status| (400..500).contains(&status));
        let has_line = match &end.who {
            Some(who) if who.uid != 0 && is_refused => refusals.has_line(who.uid, now),
            _ => true,
        };
        drop(refusals);
        over.into_iter().for_each(|(uid, count)| self.write(Event::Refusals { uid, count }));
        has_line
    }

    /// These were copied together, and this is how it ended.
    pub(crate) fn transferred(&self, transfers: &[Transfer], end: &StageStatus) {
        for transfer in transfers {
            self.write(Event::Transfer {
                token: &transfer.token,
                job: transfer.job.as_ref(),
                uid: transfer.owner.uid,
                direction: transfer.direction,
                buffer_path: &transfer.buffer_path,
                pfs_path: transfer.pfs_path.to_string_lossy(),
                state: end.state,
                files: end.progress.entries_done,
                bytes: end.progress.bytes_done,
            });
        }
    }

    fn write(&self, event: Event<'_>) {
        let Some(path) = &self.path else { return };
        let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let line = serde_json::to_vec(&Line { time, event });
        let mut line = line.expect("all keys are strings");
        line.push(b'\n');
        if let Err(error) = append(path, &line) {
            let line = String::from_utf8_lossy(&line);
            tracing::error!(path = %path.display(), %error, %line, "write the audit log");
        }
    }
}

fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)?.write_all(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_is_refused_five_hundred_times_does_not_fill_the_log() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let audit = Audit::open(Some(path.clone())).expect("it is ours");
        let ask = |uid, status| {
            let (who, error) = (Some(Who { uid, gid: uid }), Some("not_yours"));
            let path = "/v1/sessions/1/cancel";
            audit.request(RequestEnd { who, method: "POST", path, concerned: None, status, error });
        };
        (0..500).for_each(|_| ask(1000, Some(403)));
        (0..30).for_each(|_| ask(1000, Some(200)));
        (0..30).for_each(|_| ask(0, Some(403)));
        ask(1001, Some(403));
        let log = std::fs::read_to_string(path).expect("it is ours");
        assert_eq!(log.lines().count(), 20 + 30 + 30 + 1);
    }
}
