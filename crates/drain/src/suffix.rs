//! Names on the PFS that end with this node's: of files whose own names another node has, and of files that are called
//! so.
//!
//! **Invariant:** no two files of this node are put under one name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::drain::{Drain, State};
use crate::ledger::Ledger;
use crate::settings::SameName;

/// Who has which name that ends with this node's, by the path below the drained folder.
pub(crate) struct Suffixed {
    suffix: String,
    owners: HashMap<PathBuf, PathBuf>,
}

impl Suffixed {
    /// As the ledger of `host` has it.
    pub(crate) fn of(ledger: &Ledger, host: &str) -> Suffixed {
        let mut suffixed = Suffixed { suffix: format!(".{host}"), owners: HashMap::new() };
        for path in ledger.paths() {
            for trace in ledger.traces(path) {
                drop(suffixed.take(path, trace.target));
            }
        }
        suffixed
    }

    /// The file of `path` has `name`, or where another has it, that with the node's at its end once more.
    fn take(&mut self, path: &Path, mut name: PathBuf) -> PathBuf {
        while name.as_os_str().as_encoded_bytes().ends_with(self.suffix.as_bytes()) {
            let owner = self.owners.entry(name.clone()).or_insert_with(|| path.to_owned());
            if owner.as_path() == path {
                break;
            }
            name = self.with_suffix(name);
        }
        name
    }

    /// The file of `path` is gone.
    pub(crate) fn forget(&mut self, path: &Path) {
        self.owners.retain(|_, owner| owner.as_path() != path);
    }

    fn with_suffix(&self, name: PathBuf) -> PathBuf {
        let mut name = name.into_os_string();
        name.push(&self.suffix);
        name.into()
    }
}

impl Drain {
    /// The name on the PFS that `path` is put under now; no other file of this node has it.
    pub(crate) fn take_target(&self, state: &mut State, path: &Path) -> PathBuf {
        let wanted = self.target_of(state, path);
        if self.same_name != SameName::Suffix {
            return wanted;
        }
        let taken = state.suffixed.take(path, wanted.clone());
        if taken != wanted {
            state.diverted.insert(path.to_owned(), taken.clone());
        }
        taken
    }

    /// The next name for `path` where another node has `taken`.
    pub(crate) fn divert(&self, path: &Path, taken: PathBuf) -> PathBuf {
        let mut state = self.lock();
        let wanted = state.suffixed.with_suffix(taken);
        let other = state.suffixed.take(path, wanted);
        state.diverted.insert(path.to_owned(), other.clone());
        other
    }
}
