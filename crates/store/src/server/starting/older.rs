//! A fragment that starts looks whether its objects are those that its mirror knows it to have had, or older ones, as
//! when an old copy of its folder was put back.
//!
//! **Invariant:** nobody is served with objects that the mirror is known to have newer ones of.

use std::time::Instant;

use wire::node::FragmentStatus;

use super::{LOST_PAUSE, PATIENCE, PAUSE, Server, Starting};
use crate::fragment::due::Due;
use crate::fragment::restore::look;
use crate::mirror::restore_error::RestoreError;

impl Server {
    /// Takes the objects from the mirror where they are lost, or older here. Whether the fragment may be opened then.
    pub(super) fn settle_objects(&self, starting: &Starting, begun: Instant) -> bool {
        loop {
            match self.due(starting, begun) {
                Ok(Some(due)) => self.take_objects(starting, due),
                Ok(None) => {}
                Err(error) => {
                    let retried = error.may_pass();
                    let status = FragmentStatus { retried, ..starting.status() };
                    let refused = self.alone(&starting.instance, || self.refuse(status, &error.into()));
                    if !retried || refused.is_none() {
                        return false;
                    }
                    std::thread::sleep(LOST_PAUSE);
                    continue;
                }
            }
            return true;
        }
    }

    /// What is to be taken. Waits until the mirror's node has said so, or nobody can wait any longer: it is seen
    /// when that node is back.
    fn due(&self, starting: &Starting, begun: Instant) -> Result<Option<Due>, RestoreError> {
        while !starting.restores() && self.is_wanted(&starting.instance) {
            match look(&starting.folder, &starting.spec, &starting.terms) {
                Err(RestoreError::Away { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(RestoreError::Away { node, cause }) => {
                    let instance = &starting.instance;
                    tracing::warn!(?instance, ?node, %cause, "cannot ask whether this part is older than its mirror");
                    return Ok(None);
                }
                looked => return looked,
            }
        }
        Ok(starting.due)
    }
}
