//! How it stands between a fragment's objects and their mirror.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use model::Ino;

use super::asked::Asked;
use super::link::Link;
use super::todo::Todo;
use crate::doubt::{Doubt, WAIT_MAX};

/// Where changes are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Way {
    /// It is not known yet: whoever changes something waits.
    #[default]
    Unknown,
    Both,
    Alone,
}

/// What the mirror has, as was known when it was found first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Had {
    /// All that was answered, but for what a power loss took of it, and for those that it lacked.
    pub all: bool,
    /// No power was lost since.
    pub still: bool,
    /// Objects that it had noted to lack.
    pub lacking: BTreeSet<Ino>,
}

impl Had {
    /// The same of one object.
    pub fn of(&self, ino: Ino) -> Had {
        if self.lacking.contains(&ino) { Had::default() } else { Had { lacking: BTreeSet::new(), ..*self } }
    }
}

/// The mirror has all that was answered, but for these; `None`: nobody knows.
pub(crate) type Note = Option<BTreeSet<Ino>>;

pub(super) struct Progress {
    /// Since when the mirror is looked for.
    pub begun: Instant,
    pub way: Way,
    /// None while changes go to both nodes and the mirror has everything.
    pub doubt: Doubt,
    /// How often the way to the mirror was found. Connections belong to one time.
    pub epoch: u64,
    /// The same, for who waits at one of them; none once the fragment is closed.
    pub now: Arc<AtomicU64>,
    /// Since when somebody waits to know the way.
    pub waiting_since: Option<Instant>,
    /// Something was answered that the mirror may lack.
    pub alone: bool,
    /// Objects that may differ.
    pub todo: Todo,
    /// Those of them that the mirror lacks, or may lack, of what was answered.
    pub lacking: Todo,
    /// The mirror's node has noted these, and control may rely on it.
    pub named: bool,
    /// Objects on which a sync of the mirror failed: what was written there before may not be on its disk.
    pub unsynced: BTreeSet<Ino>,
    /// This fragment is older than its mirror: nothing of it is used.
    pub older: bool,
    /// The mirror knows that it has everything.
    pub whole: bool,
    /// It knew that since this fragment was opened.
    pub was_whole: bool,
    /// What it had before anything was copied to it: `None` until that is known.
    pub had: Option<Had>,
    /// The mirror's life, once it was heard.
    pub life: Option<u64>,
    /// Who waits until an object is judged.
    pub asked: Asked,
    pub idle: Vec<Link>,
    pub trouble: Option<String>,
    pub closed: bool,
}

impl Progress {
    /// A connection that is open already.
    pub fn take_idle(&mut self) -> Option<Link> {
        self.idle.pop().filter(Link::may_go_on)
    }

    /// At a start.
    pub fn new(alone: bool, doubt: Doubt) -> Progress {
        Progress {
            begun: Instant::now(),
            way: Way::default(),
            doubt,
            epoch: 0,
            now: Arc::default(),
            waiting_since: None,
            alone,
            todo: Todo::default(),
            lacking: Todo::default(),
            named: false,
            older: false,
            unsynced: BTreeSet::new(),
            whole: false,
            was_whole: false,
            had: None,
            life: None,
            asked: Asked::default(),
            idle: Vec::new(),
            trouble: None,
            closed: false,
        }
    }

    /// Another time begins.
    pub fn turn(&mut self) {
        self.epoch += 1;
        self.now.store(if self.closed { u64::MAX } else { self.epoch }, Ordering::Release);
    }

    /// Whether all that was answered is on both nodes.
    pub fn is_whole(&self) -> bool {
        self.way == Way::Both && self.whole && !self.alone && !self.doubt.exists()
    }

    /// For how long the mirror is being made, milliseconds, where it is not late and nobody was answered without it.
    pub fn making_ms(&self) -> Option<u64> {
        let so_far = self.begun.elapsed();
        let is_being_made = !self.was_whole && !self.is_whole() && !self.alone && so_far < WAIT_MAX;
        is_being_made.then(|| u64::try_from(so_far.as_millis()).unwrap_or(u64::MAX))
    }
}
