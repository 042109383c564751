//! How it stands between a fragment's objects and their mirror.

use std::time::Instant;

use super::link::Link;
use super::todo::Todo;
use crate::doubt::Doubt;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Had {
    /// All that was answered, but for what a power loss took of it.
    pub all: bool,
    /// No power was lost since.
    pub still: bool,
}

pub(super) struct Progress {
    pub way: Way,
    /// None while changes go to both nodes and the mirror has everything.
    pub doubt: Doubt,
    /// How often the way to the mirror was found. Connections belong to one time.
    pub epoch: u64,
    /// Since when somebody waits to know the way.
    pub waiting_since: Option<Instant>,
    /// Something was answered that the mirror may lack.
    pub alone: bool,
    /// Objects that may differ.
    pub todo: Todo,
    /// The mirror knows that it has everything.
    pub whole: bool,
    /// What it had before anything was copied to it: `None` until that is known.
    pub had: Option<Had>,
    /// The mirror's life, once it was heard.
    pub life: Option<u64>,
    pub idle: Vec<Link>,
    pub trouble: Option<String>,
    pub closed: bool,
}

impl Progress {
    /// At a start.
    pub fn new(alone: bool, doubt: Doubt) -> Progress {
        Progress {
            way: Way::default(),
            doubt,
            epoch: 0,
            waiting_since: None,
            alone,
            todo: Todo::default(),
            whole: false,
            had: None,
            life: None,
            idle: Vec::new(),
            trouble: None,
            closed: false,
        }
    }
}
