//! What is logged of files that have landed, of those that have not, and of what stays on the PFS against expectation.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::drain::Drain;
use crate::ledger::Landed;
use crate::logs::Event;
use crate::rendezvous::Files;
use crate::state::State;
use crate::status::Trouble;

impl Drain {
    pub(crate) fn log_done(&self, path: &Path, landed: &Landed, attempts: u32) {
        self.log_copy("done", path, landed, attempts, None);
    }

    /// Logs what has landed and was not logged before the drainer was killed: the receipt is made of the log.
    pub(crate) fn complete_log(&self) {
        let told = self.rendezvous.files_of(&self.host).unwrap_or_else(|error| {
            tracing::warn!(
                "read the log in {}: {error}; all is logged again",
                self.rendezvous.folder().display()
            );
            Files::new()
        });
        for ((_, path), line) in &told {
            if matches!(line["event"].as_str(), Some("failed" | "open")) && is_known(path) {
                self.logs.remember_undone(path.clone());
            }
        }
        let state = self.lock();
        for (path, landed) in state.ledger.landed() {
            let line = told.get(&(self.host.clone(), path.clone()));
            let sum = landed.crc32c.map(|sum| format!("{sum:08x}"));
            let is_told = |line: &Value| line["event"] == "done" && line["crc32c"].as_str() == sum.as_deref();
            if !line.is_some_and(is_told) {
                self.log_done(path, landed, 1);
            }
        }
        drop(state);
        let _ = self.logs.flush();
    }

    /// Writes what was logged. Where somebody has moved the log away, all of it.
    ///
    /// # Errors
    /// What is drained here is in no receipt.
    pub(crate) fn settle_log(&self) -> io::Result<()> {
        if self.logs.replace_if_away()? {
            tracing::warn!(
                "the log of {} in {} was moved away: it is written anew",
                self.host,
                self.rendezvous.folder().display()
            );
            self.complete_log();
        }
        self.logs.flush()
    }

    pub(crate) fn log_failure(&self, path: &Path, trouble: &Trouble, attempts: u32) {
        tracing::warn!("{}; {}", trouble.message, trouble.advice);
        self.log_no_copy("failed", path, &self.lock(), attempts, Some(trouble));
    }

    pub(crate) fn log_open(&self, state: &State, path: &Path) {
        let trouble = Trouble {
            path: path.display().to_string(),
            errno: 0,
            message: format!("{} is open for writing", path.display()),
            advice: "it is copied when it is closed".to_owned(),
        };
        self.log_no_copy("open", path, state, 0, Some(&trouble));
    }

    /// Logs what became of files that could not be copied, or were open, or could not be looked at, and are none of
    /// these any more.
    pub(crate) fn log_settled(
        &self,
        failed: &BTreeMap<PathBuf, Trouble>,
        open: &[PathBuf],
        unseen: &[Trouble],
    ) {
        for path in self.logs.undone() {
            let is_unseen = unseen.iter().any(|trouble| Path::new(&trouble.path) == path);
            if is_unseen || !is_known(&path) || failed.contains_key(&path) || open.contains(&path) {
                continue;
            }
            let there = if path.is_absolute() { Ok(None) } else { self.top.find(&path) };
            let state = self.lock();
            let (landed, is_pending) = (state.ledger.get(&path).cloned(), state.table.is_pending(&path));
            drop(state);
            match (there, landed) {
                _ if is_pending => {}
                (Ok(Some(seen)), Some(landed)) if seen.kind.is_drained() => self.log_done(&path, &landed, 1),
                (Ok(Some(seen)), None) if seen.kind.is_drained() => {}
                (Ok(_), Some(landed)) => self.log_kept(&path, &landed, "its last version was not drained"),
                (Ok(_), None) => self.log_gone(&path),
                (Err(_), _) => {}
            }
        }
    }

    /// Nothing is owed of it, and nothing was drained.
    fn log_gone(&self, path: &Path) {
        self.log_no_copy("removed", path, &self.lock(), 0, None);
    }

    pub(crate) fn log_removed(&self, path: &Path, trace: &Landed) {
        self.log_copy("removed", path, trace, 1, None);
    }

    pub(crate) fn log_kept(&self, path: &Path, trace: &Landed, why: &str) {
        let target = trace.target.display();
        let trouble = Trouble {
            path: path.display().to_string(),
            errno: 0,
            message: format!("{target} stays, which was renamed or removed on the node: {why}"),
            advice: "remove it if nobody needs it".to_owned(),
        };
        tracing::warn!("{}; {}", trouble.message, trouble.advice);
        self.log_copy("kept", path, trace, 1, Some(&trouble));
    }

    /// Logs what became of a copy.
    fn log_copy(
        &self,
        event: &'static str,
        path: &Path,
        copy: &Landed,
        attempts: u32,
        trouble: Option<&Trouble>,
    ) {
        let size = copy.generation.size;
        self.logs.json(&Event {
            event,
            path,
            target: &copy.target,
            size,
            crc32c: copy.crc32c,
            sampled: self.copier.publisher.samples(size),
            left_out: &copy.left_out,
            attempts,
            trouble,
        });
    }

    /// Logs what became of a file of which there is none.
    fn log_no_copy(
        &self,
        event: &'static str,
        path: &Path,
        state: &State,
        attempts: u32,
        trouble: Option<&Trouble>,
    ) {
        let target = self.target_of(state, path);
        self.logs.json(&Event {
            event,
            path,
            target: &target,
            size: 0,
            crc32c: None,
            sampled: false,
            left_out: &[],
            attempts,
            trouble,
        });
    }
}

/// Earlier drainers, and messages, have a name that is no UTF-8 in a text that may be another's, too.
fn is_known(path: &Path) -> bool {
    path.to_str().is_none_or(|text| !text.contains(char::REPLACEMENT_CHARACTER))
}
