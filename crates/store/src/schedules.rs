//! The code and tests of the ranges that are held, once more, under random schedules of their threads. One that fails
//! is printed, and `shuttle::replay` repeats it.

#[path = "mirror"]
mod mirror {
    #[expect(clippy::duplicate_mod, reason = "with other locks")]
    #[path = "ranges.rs"]
    mod ranges;
}

mod sync {
    pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(super) use shuttle::thread;

    /// Runs a test with 1,000 schedules, or as many as `SCHEDULES` says.
    pub(super) fn explore(test: impl Fn() + Send + Sync + 'static) {
        let schedules =
            std::env::var("SCHEDULES").map_or(1000, |count| count.parse().expect("SCHEDULES is a number"));
        shuttle::check_random(test, schedules);
    }
}
