//! The name on the PFS that a file is put under, where its own is another's.

use std::path::{Path, PathBuf};

use crate::drain::Drain;
use crate::settings::SameName;
use crate::state::State;

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
