//! When the closes that are held are sent, if nothing else takes them along: a moment after the first.
//!
//! **Invariant:** after a close there is a sending that began after it, unless the closer was ended.

use std::time::Duration;

use super::sync::{Condvar, Mutex, MutexGuard, thread};

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
        if held < HELD_MAX {
            // Also where others are held: those may be closes that the home shard did not hear.
            self.set(State::Due);
        }
        held < HELD_MAX
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Ino;

    use super::super::sync::explore;
    use super::*;
    use crate::files::Files;

    /// A client that asks its home shard nothing but closes.
    #[derive(Default)]
    struct Quiet {
        closer: Closer,
        files: Mutex<Files>,
        home: Mutex<Home>,
        told: Condvar,
    }

    #[derive(Default)]
    struct Home {
        closed: Vec<Ino>,
        /// How many more requests it does not answer.
        deaf: usize,
    }

    impl Quiet {
        fn close(&self, ino: Ino) {
            let held = self.files.lock().unwrap().hold(ino, false);
            if !self.closer.wake(held) {
                self.send();
            }
        }

        fn send(&self) {
            let handles = self.files.lock().unwrap().take_held();
            let mut home = self.home.lock().unwrap();
            if home.deaf > 0 && !handles.is_empty() {
                home.deaf -= 1;
                self.files.lock().unwrap().hold_again(&handles);
            } else {
                home.closed.extend(handles.iter().map(|handle| handle.ino));
            }
            self.told.notify_all();
        }

        /// Waits until the home shard was told these closes, and no more.
        fn are_closed(&self, mut inos: Vec<Ino>) {
            let fewer = |home: &mut Home| home.closed.len() < inos.len();
            let home = self.told.wait_while(self.home.lock().unwrap(), fewer).unwrap();
            let mut closed = home.closed.clone();
            closed.sort_unstable();
            inos.sort_unstable();
            assert_eq!(closed, inos);
        }
    }

    /// Runs `test` on a client whose closer runs; ends that.
    fn with_closer(deaf: usize, test: impl Fn(&Arc<Quiet>) + Send + Sync + 'static) {
        explore(move || {
            let quiet = Arc::new(Quiet::default());
            quiet.home.lock().unwrap().deaf = deaf;
            let running = quiet.clone();
            let runner = thread::spawn(move || running.closer.run(|| running.send()));
            test(&quiet);
            quiet.closer.end();
            runner.join().unwrap();
        });
    }

    #[test]
    fn every_close_reaches_the_home_shard_though_nothing_else_is_asked() {
        with_closer(0, |quiet| {
            thread::scope(|scope| {
                for first in [0, 10] {
                    scope.spawn(move || (first..first + 3).for_each(|ino| quiet.close(Ino(ino))));
                }
            });
            quiet.are_closed([0, 1, 2, 10, 11, 12].map(Ino).to_vec());
        });
    }

    #[test]
    fn closes_that_somebody_takes_along_meanwhile_are_told_once() {
        with_closer(0, |quiet| {
            thread::scope(|scope| {
                scope.spawn(|| (0..4).for_each(|ino| quiet.close(Ino(ino))));
                scope.spawn(|| (0..2).for_each(|_| quiet.send()));
            });
            quiet.are_closed((0..4).map(Ino).collect());
        });
    }

    #[test]
    fn a_close_after_one_that_the_home_shard_did_not_hear_reaches_it_with_that_one() {
        with_closer(1, |quiet| {
            quiet.close(Ino(1));
            drop(quiet.told.wait_while(quiet.home.lock().unwrap(), |home| home.deaf > 0).unwrap());
            quiet.close(Ino(2));
            quiet.are_closed(vec![Ino(1), Ino(2)]);
        });
    }
}
