//! What is logged of files that have not landed, and of what stays on the PFS against expectation.

use std::path::Path;

use crate::drain::{Drain, State};
use crate::ledger::Landed;
use crate::logs::Event;
use crate::status::Trouble;

impl Drain {
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
