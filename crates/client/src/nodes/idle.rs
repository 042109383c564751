//! Connections to one node that nobody uses just now.
//!
//! A connection may be in use while its life ends, and come back later. Used again, it would carry a request that no
//! fence has gone before: another connection of that life may be doing the same.
//!
//! **Invariant:** what is handed out belongs to the present life.

use rustix::process::{Resource, getrlimit};

/// Idle connections kept for each node, where there are descriptors: as many as a mount has threads, and some.
const IDLE_MAX: usize = 16;

/// The idle connections of the present life.
#[derive(Debug)]
pub struct Idle<C> {
    life: u64,
    connections: Vec<C>,
    max: usize,
}

impl<C> Idle<C> {
    /// Room for so many; the first life is 0.
    pub fn up_to(max: usize) -> Idle<C> {
        Idle { life: 0, connections: Vec::new(), max }
    }

    /// One of them.
    pub fn take(&mut self) -> Option<C> {
        self.connections.pop()
    }

    /// One of them, and closes the others.
    pub fn take_last(&mut self) -> Option<C> {
        std::mem::take(&mut self.connections).pop()
    }

    /// Keeps a connection of this life, unless that is over or there are enough.
    pub fn keep(&mut self, life: u64, connection: C) {
        if life == self.life && self.connections.len() < self.max {
            self.connections.push(connection);
        }
    }

    /// Another life begins, and ends the connections of the last.
    pub fn begin(&mut self, life: u64) {
        (self.life, self.connections) = (life, Vec::new());
    }

    /// Closes them all. How many there were.
    pub fn drop_all(&mut self) -> usize {
        std::mem::take(&mut self.connections).len()
    }
}

/// How many idle connections are kept for each of so many nodes: half of what may be open is for others.
pub(super) fn idle_max(nodes: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(IDLE_MAX, |limit| (limit / 2 / nodes.max(1)).clamp(1, IDLE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_comes_back_after_its_life_is_not_used_again() {
        let mut idle = Idle::up_to(2);
        idle.keep(0, "idle");
        idle.keep(0, "in use");
        let in_use = idle.take().unwrap();
        idle.begin(1);
        idle.keep(0, in_use);
        assert_eq!(idle.take(), None);
        for name in ["a", "b", "c"] {
            idle.keep(1, name);
        }
        assert_eq!((idle.take(), idle.drop_all()), (Some("b"), 1));
    }
}
