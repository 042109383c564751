//! Work beside faults that may fail calls, or lose what was not confirmed: each call either does what it says or says that
//! it did not, and what an fsync confirmed stays.
//!
//! It keeps files open over the faults. Who drives it says before a fault what may happen (`danger errors`: calls may fail;
//! `danger loss`: also, what was not confirmed may be gone) and afterwards `settled`: then all is looked at. `check FOLDER`
//! compares what another mount shows, `probe FOLDER` does where reads may fail but not be wrong; `pause` rests until the next
//! other order. Every answer tells the steps, the fsyncs that succeeded, the calls that failed
//! and the changes that were lost so far.

mod claims;
mod settle;
mod work;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use work::Work;

use super::{Failure, STOP, obey, worked};

/// What may happen now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Danger {
    /// Nothing: no call fails, and nothing is lost.
    None,
    /// Calls fail.
    Errors,
    /// Calls fail, and what no fsync confirmed is lost.
    Loss,
}

/// Works in `mount` until it is told to stop.
pub fn run(mount: &Path, number: u64, seed: u64) {
    let work = Mutex::new(worked(Work::make(mount, number, seed)));
    let is_wanted = AtomicBool::new(false);
    let lock = || work.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                if is_wanted.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                } else {
                    worked(lock().step());
                }
            }
        });
        println!("ok begun");
        obey(|word, place| {
            is_wanted.store(true, Ordering::Relaxed);
            let said = order(&mut lock(), word, place);
            is_wanted.store(word == "pause", Ordering::Relaxed);
            said
        });
        STOP.store(true, Ordering::Relaxed);
    });
}

fn order(work: &mut Work, word: &str, place: &str) -> Result<String, Failure> {
    match (word, place) {
        ("danger", "errors") => work.expect(Danger::Errors),
        ("danger", "loss") => work.expect(Danger::Loss),
        ("settled", _) => work.settle()?,
        ("check", folder) => work.check(Path::new(folder), false)?,
        ("probe", folder) => work.check(Path::new(folder), true)?,
        ("pause", _) => {}
        _ => return Err(format!("unknown order {word} {place}")),
    }
    Ok(work.counts())
}
