//! Work beside faults that may fail calls, or lose what was not confirmed: each call either does what it says or says
//! that it did not, and what an fsync confirmed stays.
//!
//! It keeps files open over the faults. Who drives it says before a fault what may happen (`danger errors`: calls may
//! fail; `danger loss`: also, what was not confirmed may be gone) and afterwards to all `hear`, as a mount is told what
//! another has lost once that one knows it, and then to each `settled`: all is looked at.
//! `check FOLDER` compares what another mount shows, `probe FOLDER` does where reads may fail but not be wrong. `pause`
//! rests until `go on`. Every answer tells the steps, the fsyncs that succeeded, the calls that failed and the changes
//! that were lost so far.

mod claims;
mod settle;
mod steps;
mod work;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

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

/// How often who rests asks whether it may go on.
const REST: Duration = Duration::from_millis(1);

/// Works in `mount` until it is told to stop.
pub fn run(mount: &Path, number: u64, seed: u64) {
    let work = Mutex::new(worked(Work::make(mount, number, seed)));
    let is_wanted = AtomicBool::new(false);
    let lock = || work.lock().unwrap_or_else(PoisonError::into_inner);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                let mut work = lock();
                // Asked only now: whoever was told to rest takes no step more.
                if is_wanted.load(Ordering::SeqCst) {
                    drop(work);
                    std::thread::sleep(REST);
                } else {
                    worked(work.step());
                }
            }
        });
        println!("ok begun");
        let mut rests = false;
        obey(|word, place| {
            is_wanted.store(true, Ordering::SeqCst);
            let mut work = lock();
            let said = order(&mut work, word, place);
            rests |= word == "pause";
            rests &= word != "go";
            is_wanted.store(rests, Ordering::SeqCst);
            said
        });
        STOP.store(true, Ordering::Relaxed);
    });
}

fn order(work: &mut Work, word: &str, place: &str) -> Result<String, Failure> {
    match (word, place) {
        ("danger", "errors") => work.expect(Danger::Errors),
        ("danger", "loss") => work.expect(Danger::Loss),
        ("hear", _) => work.hear_of_losses().map(|_| ())?,
        ("settled", _) => work.settle()?,
        ("check", folder) => work.check(Path::new(folder), false)?,
        ("probe", folder) => work.check(Path::new(folder), true)?,
        ("pause", _) | ("go", "on") => {}
        _ => return Err(format!("unknown order {word} {place}")),
    }
    Ok(work.counts())
}
