//! What the entries of a log make: the namespace at a start, and the shorter log that is to replace one.

use std::collections::HashMap;

use model::Ino;

use super::{Numbers, State, keep_ends};
use crate::shard::followed::Followed;
use crate::shard::locks::Locks;
use crate::shard::log::Log;
use crate::shard::losses::Losses;
use crate::shard::record::{Entry, Origin, Record};
use crate::shard::room::Room;
use crate::shard::sessions::{Outcome, Sessions};
use crate::shard::tree::Tree;
use crate::shard::unconfirmed::Unconfirmed;
use crate::shard::unsettled::Unsettled;

/// How the request ended that made this record.
fn outcome_of(record: &Record) -> Outcome {
    match record {
        Record::Make { ino, .. } | Record::Link { ino, .. } | Record::SetAttr { ino, .. } => {
            Outcome::Inode(*ino)
        }
        Record::Answered { ino: Some(ino) } => Outcome::Inode(*ino),
        Record::Reserved { offset, .. } | Record::Placed { offset } => Outcome::Offset(*offset),
        _ => Outcome::Done,
    }
}

/// What the entries of a log make, one after the other.
#[derive(Debug)]
pub struct Replayed {
    pub(super) tree: Tree,
    pub(super) sessions: Sessions,
    pub(super) ends: HashMap<Ino, u64>,
    pub(super) numbered: Ino,
    pub(super) verifier: Option<u64>,
    pub(super) followed: Followed,
    pub(super) unconfirmed: Unconfirmed,
    pub(super) losses: Losses,
}

impl Default for Replayed {
    fn default() -> Replayed {
        Replayed {
            tree: Tree::empty(),
            sessions: Sessions::default(),
            ends: HashMap::new(),
            numbered: Ino(0),
            verifier: None,
            followed: Followed::default(),
            unconfirmed: Unconfirmed::default(),
            losses: Losses::default(),
        }
    }
}

impl Replayed {
    /// Adds one entry.
    pub fn apply(&mut self, entry: Entry) {
        self.tree.apply(&entry.record);
        keep_ends(&mut self.ends, &entry.record);
        self.followed.apply(&entry.record);
        self.unconfirmed.apply(&entry.record);
        self.losses.apply(&entry.record, || self.followed.verifiers());
        match entry.record {
            Record::Began { session } => self.sessions.note(session),
            Record::Ended { session } => self.sessions.forget(session),
            Record::Numbered { until } => self.numbered = self.numbered.max(until),
            Record::Verified { verifier } => self.verifier = Some(verifier),
            _ => {}
        }
        if let Some(origin) = entry.origin {
            self.sessions.recover_answer(origin.session, origin.id, outcome_of(&entry.record));
        }
    }

    /// The entries that make the same, and no more than needed.
    pub fn snapshot(&self) -> impl Iterator<Item = Entry> {
        let Replayed { tree, sessions, ends, numbered, verifier, followed, unconfirmed, losses } = self;
        let answers = sessions.answers().map(|(session, id, outcome)| Entry {
            origin: Some(Origin { session, id }),
            record: match outcome {
                Outcome::Done => Record::Answered { ino: None },
                Outcome::Inode(ino) => Record::Answered { ino: Some(ino) },
                Outcome::Offset(offset) => Record::Placed { offset },
            },
        });
        // What sessions began with is before them.
        let noted = losses.own().into_iter().chain(followed.snapshot());
        let noted = noted.chain(sessions.noted().map(|session| Record::Began { session }));
        let noted = noted.chain(losses.heard(&followed.verifiers()));
        let reserved = ends.iter().map(|(&ino, &end)| Record::Reserved { ino, offset: end, end });
        let plain = |record| Entry { origin: None, record };
        // First: what it makes doubtful comes after it.
        let verified = verifier.map(|verifier| Record::Verified { verifier });
        let tree = verified.into_iter().chain(tree.snapshot()).map(plain);
        let rest = noted.chain(reserved).chain(losses.snapshot()).chain(unconfirmed.snapshot());
        let rest = rest.chain([Record::Numbered { until: *numbered }]);
        tree.chain(answers).chain(rest.map(plain))
    }

    pub(super) fn with(self, log: Log) -> State {
        let Replayed { tree, sessions, ends, numbered, verifier, followed, unconfirmed, mut losses } = self;
        losses.any_writes();
        let noted = numbered.max(tree.next_ino());
        let numbers = Numbers { durable: Ino(0), noted };
        let (locks, unsettled) = (Locks::default(), Unsettled::all());
        State {
            tree,
            log,
            sessions,
            locks,
            ends,
            numbers,
            followed,
            unconfirmed,
            unsettled,
            losses,
            room: Room::default(),
            verifier,
        }
    }
}
