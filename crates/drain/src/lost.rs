//! Files of which the node's disk could not write back something. The kernel says so once, so it is noted in the
//! ledger. A disk that is mounted anew shows such a file as if nothing had happened.

use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use crate::flash::Flash;
use crate::generation::Stamp;
use crate::source::Losses;
use crate::state::State;

/// What is known of them.
pub(crate) struct Lost {
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) flash: Arc<Flash>,
}

impl Lost {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

impl Losses for Lost {
    fn has(&self, file: (u64, Stamp)) -> bool {
        self.lock().ledger.has_lost(file)
    }

    fn add(&self, file: (u64, Stamp)) {
        // Whoever asks for the status does not wait until the PFS has the note.
        let noted = self.lock().ledger.lose(file);
        if let Err(error) = noted {
            self.flash.fail(&format!("the drainer cannot note on it what it has lost: {error}"));
        }
    }

    fn refuses(&self, errno: Errno) {
        self.flash.suspect(errno);
    }
}
