//! Signs that a mover is at work, for its coordinator: it is given up when there are none.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use wire::data::{Connection, Stream};
use wire::mover::{Answer, OPERATION_MAX, SIGN_EVERY, SILENCE_MAX};

use super::answer;
use crate::monitor::Monitor;

/// Gives the first sign, and has a thread give the others until the connection ends.
pub(super) fn start(
    stream: &Stream,
    answers: &Arc<Mutex<Connection>>,
    monitor: &Arc<Monitor>,
) -> io::Result<()> {
    let (stream, answers, monitor) = (stream.try_clone()?, answers.clone(), monitor.clone());
    give(&answers, &monitor)?;
    let go_on = move || {
        loop {
            let slept_at = Instant::now();
            std::thread::sleep(SIGN_EVERY);
            if slept_at.elapsed() >= SILENCE_MAX {
                // This process stood still, or its host did: its work is done by others.
                monitor.cancel();
                return stream.shutdown();
            }
            if give(&answers, &monitor).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("signs".into()).spawn(go_on).map(drop)
}

/// None while an operation does not come back.
fn give(answers: &Mutex<Connection>, monitor: &Monitor) -> io::Result<()> {
    if monitor.stalls.longer_than(OPERATION_MAX).is_some() {
        return Ok(());
    }
    // Before it is sent: the coordinator counts from when it hears it.
    monitor.lease.renew(SILENCE_MAX);
    answer(answers, 0, &Answer::AtWork)
}
