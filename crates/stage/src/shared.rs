//! What the threads of one run leave for each other.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use wire::control::Side;

use crate::at::At;
use crate::differing::Differing;
use crate::entry::Folder;
use crate::links::Links;
use crate::unverified::Unverified;

/// One for each run; the default for the coordinator, or for who copies entry by entry.
#[derive(Default)]
pub(crate) struct Shared {
    /// What sets the names of this host's parts apart from those of the coordinator: empty for that, else as `m2-`.
    pub(crate) mover: String,
    /// Movers may help, which make parts.
    pub(crate) helped: bool,
    pub(crate) links: Links,
    pub(crate) unverified: Unverified,
    pub(crate) parts: AtomicU64,
    pub(crate) strays: Mutex<Strays>,
    /// Tells what this process's threads are at.
    pub(crate) at: Arc<At>,
    pub(crate) owner_remarked: AtomicBool,
    /// What of each entry the target does not hold, by its name there, where somebody asks for it entry by entry.
    pub(crate) left_out: Option<Mutex<HashMap<PathBuf, Vec<String>>>>,
    pub(crate) times: Mutex<Differing>,
    /// Held while a file with a new name is looked at and noted, so that the last note is of all names.
    pub(crate) noting: Mutex<()>,
    /// Folders whose entries are done, but for what passes put there and the source does not have any more.
    pub(crate) held: Mutex<Vec<Folder>>,
    /// Something could not be looked at or copied in this pass.
    pub(crate) pass_failed: AtomicBool,
    /// What a file was given up for, of which there is one cause for all: waiting again with each of a million others
    /// would be in vain until one is copied.
    pub(crate) in_vain: Mutex<Vec<(Side, i32)>>,
}

/// What may be left of this run.
#[derive(Default)]
pub(crate) struct Strays {
    /// Parts that could not be removed.
    pub(crate) paths: Vec<PathBuf>,
    /// There may be others: of a mover that was not heard of again, or of an earlier run.
    pub(crate) unknown: bool,
    /// One was not where it was made.
    pub(crate) missed: bool,
}
