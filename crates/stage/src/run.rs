//! What the threads of one run share: the queue, who works it off, and what they leave for each other.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use wire::control::Side;

use crate::at::At;
use crate::entry::Entry;
use crate::links::Links;
use crate::movers::Crew;
use crate::queue::Queue;
use crate::strays::Strays;
use crate::transfer::{Copier, Here};

/// One run.
pub(crate) struct Run {
    pub(crate) queue: Queue<Entry, dyn Copier>,
    /// This host.
    pub(crate) here: Arc<dyn Copier>,
    /// Hosts that help.
    pub(crate) crew: Crew,
    /// Threads of this host that work off the queue.
    pub(crate) workers: usize,
    /// What sets the names of this host's parts apart from those of the coordinator: empty for that, else as `m2-`.
    pub(crate) hand: String,
    pub(crate) links: Links,
    pub(crate) parts: AtomicU64,
    pub(crate) strays: Mutex<Strays>,
    /// Tells what this process's threads are at.
    pub(crate) at: Arc<At>,
    pub(crate) owner_remarked: AtomicBool,
    /// Something could not be looked at or copied in this pass.
    pub(crate) pass_failed: AtomicBool,
    /// What a file was given up for, of which there is one cause for all: waiting again with each of a million others
    /// would be in vain until one is copied.
    pub(crate) in_vain: Mutex<Vec<(Side, i32)>>,
}

impl Default for Run {
    /// Nobody works off the queue: the caller copies entry by entry.
    fn default() -> Run {
        Run {
            queue: Queue::new(),
            here: Arc::new(Here { fragment: None }),
            crew: Crew::default(),
            workers: 0,
            hand: String::new(),
            links: Links::default(),
            parts: AtomicU64::new(0),
            strays: Mutex::default(),
            at: Arc::default(),
            owner_remarked: AtomicBool::new(false),
            pass_failed: AtomicBool::new(false),
            in_vain: Mutex::default(),
        }
    }
}
