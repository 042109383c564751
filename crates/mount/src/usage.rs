//! How full the namespace is, within bounded time.
//!
//! `umount` asks that before it unmounts, so a storage node that hangs must not hold the answer up: after a second it
//! is what was last known.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use client::{Client, Errno, Operations as _, Result, Usage};

/// How long the nodes may take. Living ones answer in less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the nodes last said.
#[derive(Debug, Default)]
pub struct LastUsage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Result<Usage>>,
    /// A thread asks; one at a time, however often a hung node is asked for.
    asking: bool,
    answers: u64,
}

impl LastUsage {
    /// Asks the nodes, or joins who does.
    ///
    /// # Errors
    /// What asking failed with; ETIMEDOUT where the nodes have never answered.
    pub fn ask(self: &Arc<LastUsage>, client: &Arc<Client>) -> Result<Usage> {
        let mut state = self.state();
        let before = state.answers;
        if !state.asking {
            state.asking = true;
            let (this, client) = (Arc::clone(self), Arc::clone(client));
            let asking = std::thread::Builder::new().name("usage".into()).spawn(move || {
                let usage = client.usage();
                // A client that ends with this thread ends before the answer is told.
                drop(client);
                this.answered(usage);
            });
            if asking.is_err() {
                state.asking = false;
            }
        }
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.answers == before);
        let (state, _) = waited.expect(POISON);
        state.last.unwrap_or(Err(Errno::TIMEDOUT))
    }

    fn answered(&self, usage: Result<Usage>) {
        let mut state = self.state();
        *state = State { last: Some(usage), asking: false, answers: state.answers + 1 };
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the last usage";
