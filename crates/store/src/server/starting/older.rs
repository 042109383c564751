//! A fragment that starts looks whether its objects are those that its mirror knows it to have had, or older ones, as
//! when an old copy of its folder was put back.
//!
//! **Invariant:** nobody is served with objects that the mirror is known to have newer ones of.

use std::time::Instant;

use super::{PATIENCE, PAUSE, Server, Starting};
use crate::fragment::restore::look;
use crate::mirror::restore_error::RestoreError;

impl Server {
    /// Takes the objects from the mirror where they are lost, or older here. Whether the fragment may be opened then.
    pub(super) fn settle_objects(&self, starting: &Starting, begun: Instant) -> bool {
        match self.is_due(starting, begun) {
            Ok(true) => self.take_objects(starting),
            Ok(false) => {}
            Err(error) => {
                self.alone(starting, || self.refuse(starting.status(), &error.into()));
                return false;
            }
        }
        true
    }

    /// Whether that is to be done. Waits until the mirror's node has said so, or nobody can wait any longer: it is seen
    /// when that node is back.
    fn is_due(&self, starting: &Starting, begun: Instant) -> Result<bool, RestoreError> {
        while !starting.restores() && self.is_wanted(&starting.instance) {
            match look(&starting.folder, &starting.spec, &starting.terms) {
                Err(RestoreError::Away { .. }) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
                Err(RestoreError::Away { node, cause }) => {
                    let instance = &starting.instance;
                    tracing::warn!(instance, node, %cause, "cannot ask whether this part is older than its mirror");
                    return Ok(false);
                }
                looked => return looked,
            }
        }
        Ok(starting.restores())
    }
}
