//! The objects of a fragment that starts are taken from its mirror, where they were lost with the node whose place it
//! takes, or are older here.
//!
//! **Invariant:** what became of that is shown only of a fragment that nobody has removed meanwhile.

use wire::node::FragmentStatus;

use super::{LOST_PAUSE, Server, Starting};
use crate::fragment::due::Due;
use crate::fragment::restore;
use crate::mirror::restore_error::RestoreError;
use crate::server::slot::Slot;

impl Server {
    /// Takes the objects from the mirror. Clients wait meanwhile, unless that cannot be.
    pub(super) fn take_objects(&self, starting: &Starting, due: Due) {
        while self.is_wanted(&starting.instance) {
            let taken = restore::run(&starting.folder, due, &starting.spec, &starting.terms);
            if self.taken(starting, taken) {
                return;
            }
            std::thread::sleep(LOST_PAUSE);
        }
    }

    /// Shows what came of that, if nobody has removed the fragment meanwhile. Returns whether there is nothing more to
    /// be done.
    pub(in crate::server) fn taken(&self, starting: &Starting, taken: Result<(), RestoreError>) -> bool {
        self.alone(&starting.instance, || self.show_taken(starting, taken)).unwrap_or(true)
    }

    fn show_taken(&self, starting: &Starting, taken: Result<(), RestoreError>) -> bool {
        let instance = &starting.instance;
        let Err(error) = taken else {
            tracing::info!(
                ?instance,
                "the objects of a fragment that was lost are here again, or known to be lost"
            );
            self.slots().insert(instance.clone(), Slot::Starting(starting.status()));
            return true;
        };
        let why = Some(error.to_string());
        if self.status_of(instance).is_some_and(|status| status.error == why) {
            return false;
        }
        if matches!(error, RestoreError::Lacking { .. } | RestoreError::Alone { .. }) {
            self.refuse(starting.status(), &error.into());
        } else {
            tracing::warn!(?instance, %error, "the objects of a fragment that was lost are not here yet");
            let status = FragmentStatus { error: why, ..starting.status() };
            self.slots().insert(instance.clone(), Slot::Starting(status));
        }
        false
    }
}
