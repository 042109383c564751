//! The processes of a job step: started together, signalled together, awaited together.

use std::ffi::OsStr;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::cannot_start;
use crate::exit_code::JobExit;
use crate::failure::Failure;

/// Signals that reach every rank.
const FORWARDED: [(SignalKind, Signal); 5] = [
    (SignalKind::interrupt(), Signal::INT),
    (SignalKind::terminate(), Signal::TERM),
    (SignalKind::hangup(), Signal::HUP),
    (SignalKind::user_defined1(), Signal::USR1),
    (SignalKind::user_defined2(), Signal::USR2),
];

/// Runs `commands` to their end; the result is the highest exit status.
///
/// # Errors
/// One of them could not be started; those that were are ended.
pub async fn run(commands: Vec<Command>, program: &OsStr) -> Result<u8, Failure> {
    // Before the first rank runs: a signal that comes while they are started is kept for them, and does not end us.
    let signals = listen()?;
    let mut ranks = JoinSet::new();
    let mut pids = Vec::new();
    for command in commands {
        match tokio::process::Command::from(command).spawn() {
            Ok(child) => {
                pids.extend(child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?)));
                ranks.spawn(ended(child));
            }
            Err(error) => {
                send(&pids, Signal::TERM);
                while ranks.join_next().await.is_some() {}
                return Err(cannot_start(program, &error));
            }
        }
    }
    forward(signals, &pids);
    let mut highest = 0;
    while let Some(status) = ranks.join_next().await {
        highest = highest.max(status.unwrap_or(u8::MAX));
    }
    Ok(highest)
}

async fn ended(mut child: Child) -> u8 {
    child.wait().await.map_or(u8::MAX, |status| JobExit::of(status).number())
}

fn listen() -> Result<Vec<(tokio::signal::unix::Signal, Signal)>, Failure> {
    let heard = FORWARDED.into_iter().map(|(kind, number)| Ok((signal(kind)?, number)));
    heard
        .collect::<std::io::Result<_>>()
        .map_err(|e| Failure::unavailable(format!("listen for signals: {e}"), "look at `ulimit -a`"))
}

/// A process that has ended but not been awaited keeps its number, and all are awaited before this process ends, so a
/// signal reaches a rank or nobody, with one exception: a rank that ended long before the others. Its number can be
/// given out again only after all others were, which takes the kernel longer than a job step.
fn forward(signals: Vec<(tokio::signal::unix::Signal, Signal)>, pids: &[Pid]) {
    for (mut heard, number) in signals {
        let pids = pids.to_vec();
        tokio::spawn(async move {
            while heard.recv().await.is_some() {
                send(&pids, number);
            }
        });
    }
}

fn send(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // One that is gone needs no signal.
        let _ = kill_process(*pid, signal);
    }
}
