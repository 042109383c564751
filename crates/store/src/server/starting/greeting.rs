//! A fragment that starts introduces itself to the nodes of all others: they hear that it has taken another's place, or
//! it hears that it was replaced itself.
//!
//! **Invariant:** where the nodes of the instance can be reached, who was replaced hears of it before it serves
//! anybody.

use std::time::{Duration, Instant};

use wire::data::hello::{HelloError, Key};
use wire::data::member::Role;

use super::lost::ANSWER_WITHIN;
use super::{PATIENCE, PAUSE, Starting};
use crate::link::{Place, keeper_of};

impl Starting {
    /// Asks all once. The one that keeps its mirror is waited for, as it may be starting, too; a home asks for the copy
    /// of its metadata log anyway.
    pub(super) fn greet(&self) {
        let Some(key) = Key::from_hex(&self.spec.key) else { return };
        let Some(namespace) = self.spec.namespaces.first().map(|namespace| namespace.id) else { return };
        let waits = !self.restores() && self.homes.is_empty();
        std::thread::scope(|scope| {
            for fragment in (0..).take(self.spec.peers.len()).filter(|fragment| *fragment != self.spec.index)
            {
                let about = (namespace, Role::Copying);
                let Some(place) = Place::at(&self.spec, fragment, about, key.clone(), &self.terms) else {
                    continue;
                };
                let is_waited_for = waits && keeper_of(&self.spec) == Some(fragment);
                let patience = if is_waited_for { PATIENCE } else { Duration::ZERO };
                scope.spawn(move || greet(&place, patience));
            }
        });
    }
}

/// What the node says is the place's to heed.
fn greet(place: &Place, patience: Duration) {
    let begun = Instant::now();
    while matches!(place.connect(Some(ANSWER_WITHIN)), Err(HelloError::Io(_))) && begun.elapsed() < patience {
        std::thread::sleep(PAUSE);
    }
}
