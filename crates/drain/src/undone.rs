//! What is logged of files that have landed, of those that have not, and of what stays on the PFS against expectation.

use std::path::Path;

use serde_json::Value;

use crate::drain::{Drain, State};
use crate::ledger::Landed;
use crate::logs::Event;
use crate::rendezvous::Files;
use crate::status::Trouble;

impl Drain {
    pub(crate) fn log_done(&self, path: &Path, landed: &Landed, attempts: u32) {
        self.logs.json(&Event {
            event: "done",
            path,
            target: &landed.target,
            size: landed.generation.size,
            crc32c: landed.crc32c,
            attempts,
            trouble: None,
        });
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
        let state = self.lock();
        for (path, landed) in state.ledger.landed() {
            let line = told.get(&(self.host.clone(), path.to_string_lossy().into_owned()));
            let sum = landed.crc32c.map(|sum| format!("{sum:08x}"));
            let is_told = |line: &Value| line["event"] == "done" && line["crc32c"].as_str() == sum.as_deref();
            if !line.is_some_and(is_told) {
                self.log_done(path, landed, 1);
            }
        }
        drop(state);
        self.logs.flush();
    }

    pub(crate) fn log_failure(&self, path: &Path, trouble: &Trouble, attempts: u32) {
        tracing::warn!("{}; {}", trouble.message, trouble.advice);
        let target = self.target_of(&self.lock(), path);
        self.logs.json(&Event {
            event: "failed",
            path,
            target: &target,
            size: 0,
            crc32c: None,
            attempts,
            trouble: Some(trouble),
        });
    }

    pub(crate) fn log_open(&self, state: &State, path: &Path) {
        let trouble = Trouble {
            path: path.display().to_string(),
            errno: 0,
            message: format!("{} is open for writing", path.display()),
            advice: "it is copied when it is closed".to_owned(),
        };
        let (target, trouble) = (self.target_of(state, path), Some(&trouble));
        self.logs.json(&Event {
            event: "open",
            path,
            target: &target,
            size: 0,
            crc32c: None,
            attempts: 0,
            trouble,
        });
    }

    pub(crate) fn log_removed(&self, path: &Path, trace: &Landed) {
        self.logs.json(&Event {
            event: "removed",
            path,
            target: &trace.target,
            size: trace.generation.size,
            crc32c: trace.crc32c,
            attempts: 1,
            trouble: None,
        });
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
        self.logs.json(&Event {
            event: "kept",
            path,
            target: &trace.target,
            size: trace.generation.size,
            crc32c: trace.crc32c,
            attempts: 1,
            trouble: Some(&trouble),
        });
    }
}
