//! What each node said last of the fragments that it served, and which of those go on at other nodes.
//!
//! A node asks before it answers what its mirror does not have ([`FragmentStatus::doubts`]). What it is told and what a
//! fragment is given up by are decided here, under one lock, so that never both happen.
//!
//! **Invariant:** a fragment is given up by nothing older than the last doubt that its node was told is known.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::node::{FragmentStatus, NodeHealth};

/// A node and an instance.
type Place = (String, String);

/// Of all nodes. What is known here dies with the process: then nothing is given up before its node was heard again.
#[derive(Default)]
pub(super) struct LastWords {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    said: HashMap<Place, FragmentStatus>,
    given_up: HashSet<Place>,
}

impl LastWords {
    /// Takes note of what a node says; returns of which doubts it is to be told that they are known, by instance.
    pub(super) fn hear(&self, node: &str, health: &NodeHealth) -> Vec<(String, Vec<u64>)> {
        let mut state = self.lock();
        for fragment in health.fragments.iter().filter(|fragment| is_served(fragment)) {
            state.said.insert((node.to_owned(), fragment.instance.clone()), fragment.clone());
        }
        let of_each = health.fragments.iter().map(|fragment| (fragment.instance.clone(), fragment.doubts()));
        let is_told = |(instance, doubts): &(String, Vec<u64>)| {
            !doubts.is_empty() && !state.given_up.contains(&(node.to_owned(), instance.clone()))
        };
        of_each.filter(is_told).collect()
    }

    /// The node is told of no more doubts about the instance; returns what it said last of its fragment.
    pub(super) fn give_up(&self, node: &str, instance: &str) -> Option<FragmentStatus> {
        let mut state = self.lock();
        let place = (node.to_owned(), instance.to_owned());
        let said = state.said.get(&place).cloned();
        state.given_up.insert(place);
        said
    }

    /// The node has its place in the instance, as before or again.
    pub(super) fn keep(&self, node: &str, instance: &str) {
        self.lock().given_up.remove(&(node.to_owned(), instance.to_owned()));
    }

    /// Forgets what a node said: nobody knows any more what it was told elsewhere.
    pub(super) fn forget(&self, node: &str) {
        self.lock().said.retain(|(known, _), _| known != node);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One that is starting, or that cannot be served, says nothing of its mirror, as if there were none.
fn is_served(fragment: &FragmentStatus) -> bool {
    let speaks = !fragment.mirrors.is_empty() || !fragment.copies.is_empty();
    speaks || !(fragment.starting || fragment.error.is_some())
}

#[cfg(test)]
mod tests {
    use wire::node::{MirrorStatus, StorageAddress};

    use super::*;

    fn health(fragment: FragmentStatus) -> NodeHealth {
        NodeHealth {
            name: "n1".into(),
            pid: 1,
            data: StorageAddress { node: "n1".into(), tcp: String::new(), unix: None },
            fragments: vec![FragmentStatus { instance: "i1".into(), ..fragment }],
            mounts: Vec::new(),
            stages: Vec::new(),
            local: None,
        }
    }

    fn mirrored(doubt: Option<u64>) -> FragmentStatus {
        let mirror = MirrorStatus {
            namespace: 0,
            node: "n1".into(),
            mirror: "n2".into(),
            whole: doubt.is_none(),
            named: doubt.is_none(),
            behind: None,
            error: None,
            doubt,
            repaired: 0,
            making_ms: None,
        };
        FragmentStatus { mirrors: vec![mirror], ..FragmentStatus::default() }
    }

    #[test]
    fn a_start_that_serves_nothing_does_not_unsay_that_the_mirror_lacks_something() {
        let words = LastWords::default();
        words.hear("n1", &health(mirrored(Some(7))));
        let refused = FragmentStatus { error: Some("damaged".into()), ..FragmentStatus::default() };
        words.hear("n1", &health(refused));
        words.hear("n1", &health(FragmentStatus { starting: true, ..FragmentStatus::default() }));
        assert!(!words.give_up("n1", "i1").unwrap().mirrors[0].whole);
        // It is served, though its space cannot be measured.
        let served = FragmentStatus { error: Some("cannot measure".into()), ..mirrored(None) };
        words.hear("n1", &health(served));
        assert!(words.give_up("n1", "i1").unwrap().mirrors[0].whole);
    }

    #[test]
    fn a_node_is_not_told_that_its_doubt_is_known_once_its_part_is_given_up() {
        let words = LastWords::default();
        assert_eq!(words.give_up("n1", "i1"), None);
        assert_eq!(words.hear("n1", &health(mirrored(Some(7)))), []);
        words.keep("n1", "i1");
        assert_eq!(words.hear("n1", &health(mirrored(Some(7)))), [("i1".to_owned(), vec![7])]);
        assert!(!words.give_up("n1", "i1").unwrap().mirrors[0].whole, "it was told: that counts");
    }
}
