//! What threads wait for each other with, as shuttle has it: the `sync` of the files that `schedules.rs` of a crate
//! names.

pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(super) use shuttle::thread;

/// Runs a test with 1,000 schedules, or as many as `SCHEDULES` says.
pub(super) fn explore(test: impl Fn() + Send + Sync + 'static) {
    let schedules =
        std::env::var("SCHEDULES").map_or(1000, |count| count.parse().expect("SCHEDULES is a number"));
    shuttle::check_random(test, schedules);
}
