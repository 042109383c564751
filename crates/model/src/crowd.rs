//! Who makes room where there are too many: whoever has most loses the one that has waited longest. So nobody is kept
//! out by another's.
//!
//! **Invariant:** one that had to make room is not counted any more, whatever is said of it afterwards.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;

/// Who is at the other end of a connection, before anything else is known of him.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A user of this machine, by the kernel's word.
    User(u32),
    /// A host.
    Address(IpAddr),
}

impl Peer {
    /// The host of this address; one that is written as IPv6's is no other host.
    pub fn at(address: IpAddr) -> Peer {
        Peer::Address(address.to_canonical())
    }
}

/// All that are there, by whose they are.
#[derive(Debug)]
pub struct Crowd<P, W> {
    /// Grows with each that begins to wait: the order in which they do.
    turn: u64,
    all: usize,
    groups: HashMap<P, Group<W>>,
}

#[derive(Debug)]
struct Group<W> {
    /// Those that cannot make room just now.
    busy: usize,
    /// The others, by the turn in which they began to wait.
    waiting: BTreeMap<u64, W>,
}

impl<P, W> Default for Crowd<P, W> {
    fn default() -> Crowd<P, W> {
        Crowd { turn: 0, all: 0, groups: HashMap::new() }
    }
}

impl<P: Copy + Eq + Hash, W> Crowd<P, W> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all
    }

    /// Whether nothing is remembered of anybody.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// One more, which waits. Gives its turn.
    pub fn enter(&mut self, whose: P, one: W) -> u64 {
        self.all += 1;
        self.wait(whose, one)
    }

    /// The one that waits since this turn is busy from now on; `false`: it had to make room meanwhile.
    pub fn begin(&mut self, whose: P, turn: u64) -> bool {
        let group = self.groups.get_mut(&whose);
        let is_there = group.is_some_and(|group| {
            let is_there = group.waiting.remove(&turn).is_some();
            group.busy += usize::from(is_there);
            is_there
        });
        self.forget_if_gone(whose);
        is_there
    }

    /// One that was busy waits again, as the last. Gives its turn.
    pub fn end(&mut self, whose: P, one: W) -> u64 {
        if let Some(group) = self.groups.get_mut(&whose) {
            group.busy = group.busy.saturating_sub(1);
        }
        self.wait(whose, one)
    }

    /// The one that waits since this turn is gone; `false`: it had to make room before.
    pub fn leave(&mut self, whose: P, turn: u64) -> bool {
        let is_there = self.groups.get_mut(&whose).is_some_and(|group| group.waiting.remove(&turn).is_some());
        self.all -= usize::from(is_there);
        self.forget_if_gone(whose);
        is_there
    }

    /// Takes out the one that has waited longest, of whoever has most when `newcomer` has one more. `None`: all are
    /// busy.
    pub fn make_room(&mut self, newcomer: P) -> Option<(P, W)> {
        let could = self.groups.iter_mut().filter(|(_, group)| !group.waiting.is_empty());
        let all =
            |whose: &P, group: &Group<W>| group.busy + group.waiting.len() + usize::from(*whose == newcomer);
        let (whose, most) = could.max_by_key(|(whose, group)| all(whose, group))?;
        let (whose, (_, one)) = (*whose, most.waiting.pop_first()?);
        self.all -= 1;
        self.forget_if_gone(whose);
        Some((whose, one))
    }

    fn wait(&mut self, whose: P, one: W) -> u64 {
        self.turn += 1;
        let group = self.groups.entry(whose);
        group.or_insert_with(|| Group { busy: 0, waiting: BTreeMap::new() }).waiting.insert(self.turn, one);
        self.turn
    }

    fn forget_if_gone(&mut self, whose: P) {
        if self.groups.get(&whose).is_some_and(|group| group.busy == 0 && group.waiting.is_empty()) {
            self.groups.remove(&whose);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_makes_room_with_the_one_that_has_waited_longest() {
        let mut crowd = Crowd::default();
        let turns = [1, 2, 3].map(|number| crowd.enter("ada", number));
        crowd.enter("grace", 4);
        assert!(crowd.begin("ada", turns[0]));
        assert_eq!(crowd.make_room("grace"), Some(("ada", 2)));
        assert!(!crowd.begin("ada", turns[1]) && !crowd.leave("ada", turns[1]), "it is counted no more");
        let again = crowd.end("ada", 1);
        assert_eq!((crowd.len(), crowd.make_room("ada")), (3, Some(("ada", 3))));
        assert!(crowd.leave("ada", again));
        assert_eq!((crowd.make_room("ada"), crowd.make_room("ada")), (Some(("grace", 4)), None));
        assert_eq!((crowd.len(), crowd.is_empty()), (0, true));
    }
}
