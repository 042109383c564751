//! A fragment that starts introduces itself to the nodes of all others: they hear that it has taken another's place, or
//! it hears that it was replaced itself.
//!
//! **Invariant:** where the nodes of the instance can be reached, who was replaced hears of it before it serves
//! anybody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::FragmentIndex;
use wire::data::hello::{HelloError, Key, Refusal};
use wire::data::member::Role;
use wire::node::FragmentSpec;

use super::lost::ANSWER_WITHIN;
use super::{PATIENCE, PAUSE, Starting};
use crate::link::{Place, keeper_of};
use crate::terms::Terms;

impl Starting {
    /// Asks all once. The one that keeps its mirror is waited for, as it may be starting, too; a home asks for the copy
    /// of its metadata log anyway. Returns whether one of them does not take its key.
    pub(super) fn greet(&self) -> bool {
        let waits = !self.restores() && self.homes.is_empty();
        greet_others(&self.spec, &self.terms, if waits { PATIENCE } else { Duration::ZERO })
    }
}

/// Introduces a fragment to the nodes of all others once. The one that keeps its mirror has so long to be there.
/// Returns whether one of them does not take its key.
pub(in crate::server) fn greet_others(spec: &FragmentSpec, terms: &Arc<Terms>, patience: Duration) -> bool {
    let Some(key) = Key::from_hex(&spec.key) else { return false };
    let Some(namespace) = spec.namespaces.first().map(|namespace| namespace.id) else { return false };
    std::thread::scope(|scope| {
        let mut asked = Vec::new();
        for (fragment, _) in
            FragmentIndex::of_each(&spec.peers).filter(|(fragment, _)| *fragment != spec.index)
        {
            let about = (namespace, Role::Copying);
            let Some(place) = Place::at(spec, fragment, about, key.clone(), terms) else { continue };
            let is_waited_for = keeper_of(spec) == Some(fragment);
            let patience = if is_waited_for { patience } else { Duration::ZERO };
            asked.push(scope.spawn(move || greet(&place, patience)));
        }
        // Every one is waited for, at the end of the scope at the latest.
        asked.into_iter().any(|one| one.join().unwrap_or(false))
    })
}

/// Whether the node does not take its key. What else it says is the place's to heed.
fn greet(place: &Place, patience: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match place.connect(ANSWER_WITHIN) {
            Err(HelloError::Io(_)) if begun.elapsed() < patience => std::thread::sleep(PAUSE),
            answer => return matches!(answer, Err(HelloError::Refused(Refusal::WrongKey))),
        }
    }
}
