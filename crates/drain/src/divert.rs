//! The name on the PFS that a file is put under, where its own is another's, or the drain's.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::copy::Outcome;
use crate::drain::Drain;
use crate::logs::SPECTRAL;
use crate::settings::{OWN_FOLDER, SameName};
use crate::state::State;
use crate::status::Trouble;

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

    /// Why nothing is put under `target`, if that is the drain's own: its log, as who writes on in that would damage
    /// the file, or the folder in which its nodes meet.
    pub(crate) fn is_own(&self, path: &Path, target: &Path) -> Option<Outcome> {
        if target.starts_with(self.to.join(OWN_FOLDER)) {
            return Some(Outcome::Failed(Trouble {
                path: path.display().to_string(),
                errno: Errno::EXIST.raw_os_error(),
                message: format!("{} is the drain's own name, and no file's", target.display()),
                advice: format!(
                    "give what is called {OWN_FOLDER} in the drained folder another name, or start the drain with \
                     --same-name folder"
                ),
            }));
        }
        let is_it = target.file_name() == Some(SPECTRAL.as_ref()) && target.parent() == Some(&*self.to);
        is_it.then(|| {
            Outcome::Taken(Trouble {
                path: path.display().to_string(),
                errno: Errno::EXIST.raw_os_error(),
                message: format!("{} is the log of the drain, and no file's", target.display()),
                advice: "give the file another name, or start the drain with --same-name suffix or folder"
                    .to_owned(),
            })
        })
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
