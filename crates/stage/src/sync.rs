//! What threads wait for each other with, as the standard library has it. `schedules` compiles the files that take it
//! from here once more, with shuttle's.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(test)]
pub(crate) use std::thread;

/// Runs a test as the machine happens to schedule its threads.
#[cfg(test)]
pub(crate) fn explore(test: impl Fn() + Send + Sync + 'static) {
    test();
}
