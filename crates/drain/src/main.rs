//! `forebay-drain`: drains one folder in the foreground. `forebay drain start` and the node service start it.
//!
//! It may be killed at any moment and started again: what it has done is in its ledger.

use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Parser;
use drain::settings::Settings;
use nix::sys::signal::{SigSet, Signal};
use rustix::thread::CpuSet;
use wire::control::Owner;

/// Drains a folder on this node's flash to a folder on the parallel file system.
#[derive(Parser)]
#[command(name = "forebay-drain", version)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Work with this user's rights, as 1000:1000 (root only)
    #[arg(long, value_name = "UID:GID")]
    owner: Option<String>,
}

fn main() -> ExitCode {
    daemon::begin::begin();
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("the drain does not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // Sent when somebody opens a file in the moment in which we hold a lease on it; nobody needs to know.
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGIO);
    blocked.thread_block().context("block SIGIO")?;
    be_polite(arguments)?;
    if let Some(owner) = &arguments.owner {
        stage::identity::assume(&parse_owner(owner)?)?;
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let limit = arguments.settings.limit.as_deref().map(model::size::parse).transpose();
    drain::start::run(&arguments.settings, limit.context("--limit")?)
}

/// Takes processor time and the flash's only when nobody else wants them.
fn be_polite(arguments: &Arguments) -> anyhow::Result<()> {
    rustix::process::nice(19).context("become nice")?;
    // All threads that come later have what this one has. Where there are no I/O classes, nothing is lost but speed.
    let id = rustix::thread::gettid().as_raw_nonzero().to_string();
    let idle = Command::new("ionice").args(["--class", "3", "--pid", &id]).output();
    if !idle.is_ok_and(|output| output.status.success()) {
        tracing::info!("ionice does not work here: the drain competes with the job for the flash");
    }
    let Some(cores) = &arguments.settings.cores else { return Ok(()) };
    let mut set = CpuSet::new();
    for (first, last) in drain::settings::numbers_of(cores).with_context(|| format!("--cores {cores}"))? {
        (first..=last.min(CpuSet::MAX_CPU - 1)).for_each(|core| set.set(core));
    }
    rustix::thread::sched_setaffinity(None, &set).with_context(|| format!("stay on the processors {cores}"))
}

fn parse_owner(text: &str) -> anyhow::Result<Owner> {
    let parse = |text: &str| text.parse::<u32>().context("--owner takes UID:GID");
    let (uid, gid) = text.split_once(':').context("--owner takes UID:GID")?;
    Ok(Owner { uid: parse(uid)?, gid: parse(gid)? })
}
