//! When the closes that are held are sent, if nothing else takes them along: a moment after the first.
//!
//! **Invariant:** after a close there is a sending that began after it, unless the closer was ended.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// How long a close waits for company. Other nodes see the file as open, and the space of a removed one is not free,
/// for so much longer.
const HELD_FOR: Duration = Duration::from_millis(20);

/// How many closes are held.
const HELD_MAX: usize = 64;

/// What the thread that sends closes waits for.
#[derive(Debug, Default)]
pub(crate) struct Closer {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Idle,
    Due,
    Ended,
}

impl Closer {
    /// Sends what is held whenever it is due, until the closer is ended.
    pub(crate) fn run(&self, mut send: impl FnMut()) {
        loop {
            let mut state = self.state();
            while *state == State::Idle {
                state = self.changed.wait(state).expect(POISON);
            }
            if *state == State::Ended {
                return;
            }
            *state = State::Idle;
            drop(state);
            thread::sleep(HELD_FOR);
            send();
        }
    }

    /// One more close is held, `held` in all. `false`: too many; the caller sends them.
    pub(crate) fn wake(&self, held: usize) -> bool {
        match held {
            1 => self.set(State::Due),
            HELD_MAX.. => return false,
            _ => {}
        }
        true
    }

    /// Ends [`Closer::run`].
    pub(crate) fn end(&self) {
        self.set(State::Ended);
    }

    fn set(&self, new: State) {
        let mut state = self.state();
        if *state != new && *state != State::Ended {
            *state = new;
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the closer's state";
