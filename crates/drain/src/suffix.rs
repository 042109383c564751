//! Names on the PFS that end with this node's: of files whose own names another node has, and of files that are called
//! so.
//!
//! **Invariant:** no two files of this node are put under one name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::ledger::Ledger;

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
    pub(crate) fn take(&mut self, path: &Path, mut name: PathBuf) -> PathBuf {
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

    /// The name with this node's at its end.
    pub(crate) fn with_suffix(&self, name: PathBuf) -> PathBuf {
        let mut name = name.into_os_string();
        name.push(&self.suffix);
        name.into()
    }
}
