//! How many connections a node takes at once, and who makes room for whom.
//!
//! Strangers, who have not proven anything yet, have a few places of their own: whoever has most of these, by address,
//! loses the one that has waited longest. Those that have proven who they are are counted by instance and by client.
//! Where all their places are taken, the instance that has most makes room, in it the client that has most, and of
//! that one a connection on which nothing is asked, if there is one. A client connects again when it needs to.
//!
//! **Invariant:** no stranger keeps anybody else out for as long as a handshake may take. Other storage nodes make room
//! for nobody, and no client loses its only connection.

mod strangers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{InstanceId, SessionId};
use wire::data::Stream;

use crate::descriptors::Shares;
use crate::seldom::Seldom;
pub(crate) use strangers::Stranger;
use strangers::Strangers;

/// All places of a node.
pub(crate) struct Places {
    strangers: Mutex<Strangers>,
    held: Mutex<Held>,
    max: usize,
    refused: Seldom,
    moved: Seldom,
}

#[derive(Default)]
struct Held {
    /// By the order in which they came.
    all: BTreeMap<u64, One>,
    next: u64,
}

struct One {
    instance: InstanceId,
    whose: Whose,
    stream: Arc<Stream>,
    used_for: Arc<AtomicU8>,
}

/// Who has a connection of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// The other storage nodes.
    Nodes,
    /// A mount.
    Session(SessionId),
    /// All that works for a user: stages, and what helps them.
    User(u32),
}

/// What a connection is used for: the lower, the sooner it makes room.
const IDLE: u8 = 0;
const ASKED: u8 = 1;
/// Another process speaks on it.
const LENT: u8 = 2;

/// One of the places, until it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    used_for: Arc<AtomicU8>,
}

impl Place {
    /// Something is asked on the connection.
    pub(crate) fn is_asked(&self) {
        self.used_for.store(ASKED, Ordering::Relaxed);
    }

    /// Nothing is.
    pub(crate) fn rests(&self) {
        self.used_for.store(IDLE, Ordering::Relaxed);
    }

    /// Another process speaks on it from now on.
    pub(crate) fn is_lent(&self) {
        self.used_for.store(LENT, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.held().all.remove(&self.number);
    }
}

impl Places {
    pub(crate) fn new(shares: &Shares) -> Arc<Places> {
        Arc::new(Places {
            strangers: Mutex::new(Strangers::up_to(shares.strangers)),
            held: Mutex::default(),
            max: shares.connections,
            refused: Seldom::default(),
            moved: Seldom::default(),
        })
    }

    /// A place for a connection that has proven whose it is; `None` where nobody makes room for it.
    pub(crate) fn place(
        self: &Arc<Places>,
        instance: &InstanceId,
        whose: Whose,
        stream: &Arc<Stream>,
    ) -> Option<Place> {
        let mut held = self.held();
        if held.all.len() >= self.max && !self.make_room(&mut held, instance, whose) {
            if let Some(times) = self.refused.due() {
                let limit = self.max;
                tracing::warn!(
                    ?instance,
                    ?whose,
                    limit,
                    times,
                    "refused connections: the node has as many as it can hold, and no other client has more than \
                     this one; mount the buffer on fewer nodes, or make it on more storage nodes"
                );
            }
            return None;
        }
        let (number, used_for) = (held.next, Arc::new(AtomicU8::new(IDLE)));
        held.next += 1;
        let one =
            One { instance: instance.clone(), whose, stream: stream.clone(), used_for: used_for.clone() };
        held.all.insert(number, one);
        Some(Place { places: self.clone(), number, used_for })
    }

    fn make_room(&self, held: &mut Held, instance: &InstanceId, whose: Whose) -> bool {
        let Some(one) = held.victim(instance, whose).and_then(|number| held.all.remove(&number)) else {
            return false;
        };
        one.stream.shutdown();
        if let Some(times) = self.moved.due() {
            let (from, client) = (&one.instance, one.whose);
            tracing::warn!(
                ?from,
                ?client,
                to = ?instance,
                limit = self.max,
                times,
                "connection limit reached: closed connections of the client that has most"
            );
        }
        true
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Which connection is to make room for another of this instance and client.
    fn victim(&self, instance: &InstanceId, whose: Whose) -> Option<u64> {
        let (mut instances, mut clients) = (HashMap::new(), HashMap::new());
        let own = std::iter::once((instance, whose));
        for (instance, whose) in own.chain(self.all.values().map(|one| (&one.instance, one.whose))) {
            *instances.entry(instance).or_insert(0_usize) += 1;
            *clients.entry((instance, whose)).or_insert(0_usize) += 1;
        }
        // Without a storage node's connection a mirror or the copy of a log would be given up.
        let own = if whose == Whose::Nodes { 0 } else { clients[&(instance, whose)] };
        let could = self.all.iter().filter_map(|(number, one)| {
            let used_for = one.used_for.load(Ordering::Relaxed);
            let (all, of_client) = (instances[&one.instance], clients[&(&one.instance, one.whose)]);
            let has_more =
                if one.instance == *instance { of_client > own } else { all > instances[instance] };
            let may_go = has_more && of_client > 1 && used_for != LENT && one.whose != Whose::Nodes;
            may_go.then_some((all, of_client, Reverse(used_for), Reverse(*number)))
        });
        could.max().map(|(_, _, _, Reverse(number))| number)
    }
}

#[cfg(test)]
mod tests;
