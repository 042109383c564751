//! What changes while a drainer works.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::ledger::{Landed, Ledger};
use crate::placed::{Names, Over, Placed, Under};
use crate::rate::Rate;
use crate::status::Trouble;
use crate::suffix::Suffixed;
use crate::table::Table;

/// What changes.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) ledger: Ledger,
    /// Copied, and not known to survive a power loss.
    pub(crate) landing: Vec<(PathBuf, Landed)>,
    /// Names on the PFS that are not the files' own, because another node had those.
    pub(crate) diverted: HashMap<PathBuf, PathBuf>,
    pub(crate) suffixed: Suffixed,
    /// What had landed, and was not there or could not be looked at when that was last asked, and why.
    pub(crate) disputed: Vec<Trouble>,
    /// What could not be looked at when everything was decided about last: it may be owed.
    pub(crate) unseen: Vec<Trouble>,
    pub(crate) bytes_done: u64,
    pub(crate) rate: Rate,
}

impl State {
    pub(crate) fn new(ledger: Ledger, host: &str) -> State {
        let suffixed = Suffixed::of(&ledger, host);
        State {
            suffixed,
            table: Table::default(),
            ledger,
            landing: Vec::new(),
            diverted: HashMap::new(),
            disputed: Vec::new(),
            unseen: Vec::new(),
            bytes_done: 0,
            rate: Rate::default(),
        }
    }
}

impl Names for Mutex<State> {
    fn under(&self, name: &Path) -> Option<Under> {
        self.lock().expect("no thread panics with the lock").ledger.placed(name).cloned()
    }

    fn note(&self, name: &Path, inode: Placed, over: Option<Over>) {
        let mut state = self.lock().expect("no thread panics with the lock");
        if let Err(error) = state.ledger.place(name, inode, over) {
            tracing::warn!("write the ledger: {error}; what is renamed on the node may stay on the PFS");
        }
    }

    fn first(&self, name: &Path) -> Option<Over> {
        self.lock().expect("no thread panics with the lock").ledger.first(name)
    }

    fn within(&self, folder: &Path) -> Vec<PathBuf> {
        let state = self.lock().expect("no thread panics with the lock");
        state.ledger.names().filter(|name| name.parent() == Some(folder)).cloned().collect()
    }
}
