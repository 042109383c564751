//! `forebay-stage`: runs one stage in the foreground, for the node service that supervises it.
//!
//! Prints a status line (JSON) on standard output at least twice a second and a last one at the end; log lines go to
//! standard error. Exits 0 when the stage is complete, 1 when it failed, and at once when nobody reads the lines any
//! more. Lines on standard input (JSON, `StageControl`) change its pace. SIGTERM cancels. Started again with the same
//! journal it goes on where it was.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use client::Client;
use model::phase::StageState;
use stage::engine::Engine;
use stage::identity;
use stage::journal::Journal;
use stage::monitor::Monitor;
use wire::control::{ApiError, Blame, StageStatus};
use wire::node::{StageControl, StageSpec};

/// Pause between two status lines; the node is promised two a second.
const REPORT_PERIOD: Duration = Duration::from_millis(400);

/// Runs one stage.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The stage, as the node service writes it (JSON).
    #[arg(long)]
    spec: PathBuf,
    /// What earlier runs finished; made if missing.
    #[arg(long)]
    journal: PathBuf,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    daemon::logging::init();
    let spec = read_spec(&arguments.spec)?;
    // A predecessor whose node died before it knew of it may still be at work, and two must not work on one stage.
    let _alone = daemon::lock::take_over(&arguments.journal.with_extension("lock"))?;
    // Before the change of identity: the state folder and the sockets in it are the service's, not the user's.
    let journal = Journal::open(&arguments.journal, &spec)?;
    let monitor = Arc::new(Monitor::new(&spec));
    let status = match prepare(&spec) {
        Ok(client) => run(&spec, client, journal, &monitor)?,
        Err(error) => {
            monitor.fail_stage(error);
            monitor.verdict()
        }
    };
    print(&status).context("print the last status line")?;
    Ok(if status.state == StageState::Complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read_spec(path: &Path) -> anyhow::Result<StageSpec> {
    let text = std::fs::read(path).with_context(|| format!("read stage specification {}", path.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("parse stage specification {}", path.display()))
}

/// Connects to the buffer and takes on the owner's rights.
fn prepare(spec: &StageSpec) -> Result<Client, ApiError> {
    let client = Client::connect(&spec.target).map_err(|error| ApiError {
        code: "buffer_unreachable".to_owned(),
        blame: Blame::Site,
        message: chain(&error),
        advice: "see `forebay status` for the storage nodes and look at their logs, then retry the stage"
            .to_owned(),
    })?;
    identity::assume(&spec.owner).map_err(|error| ApiError {
        code: "stage_identity".to_owned(),
        blame: Blame::Site,
        message: chain(&error),
        advice: "run the node service as root, or as the user whose files are staged".to_owned(),
    })?;
    // A folder that is made for a user has the mode that is asked for, whatever the service's umask is.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    Ok(client)
}

fn run(
    spec: &StageSpec,
    client: Client,
    journal: Journal,
    monitor: &Arc<Monitor>,
) -> anyhow::Result<StageStatus> {
    cancel_on_signal(monitor).context("wait for signals")?;
    obey(monitor);
    let (over, reporter) = start_reporter(monitor);
    let status = Engine::new(spec, client).run(spec, journal, monitor);
    // The reporter must be silent before the last line: nothing may come after it.
    drop(over);
    reporter.join().expect("the reporter does not panic");
    Ok(status)
}

/// Follows what the node says on standard input.
fn obey(monitor: &Arc<Monitor>) {
    let monitor = monitor.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            match serde_json::from_str::<StageControl>(&line) {
                Ok(control) => monitor.control(&control),
                Err(error) => tracing::warn!(line, %error, "an order of the node is not understood"),
            }
        }
    });
}

/// Prints status lines until its sender is dropped.
fn start_reporter(monitor: &Arc<Monitor>) -> (Sender<()>, std::thread::JoinHandle<()>) {
    let (over, is_over): (Sender<()>, Receiver<()>) = channel();
    let monitor = monitor.clone();
    let reporter = std::thread::spawn(move || {
        loop {
            if print(&monitor.status(StageState::Active)).is_err() {
                // The node died. Its successor starts another worker with this journal; two must not write it.
                std::process::exit(1);
            }
            if is_over.recv_timeout(REPORT_PERIOD) != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    });
    (over, reporter)
}

fn print(status: &StageStatus) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(status)?;
    line.push(b'\n');
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line)?;
    Ok(stdout.flush()?)
}

/// Cancels the stage on SIGTERM or SIGINT.
fn cancel_on_signal(monitor: &Arc<Monitor>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let terminated = {
        let _inside = runtime.enter();
        daemon::signal::terminated()?
    };
    let monitor = monitor.clone();
    std::thread::spawn(move || {
        runtime.block_on(terminated);
        monitor.cancel();
    });
    Ok(())
}

/// An error and its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |line, cause| format!("{line}: {cause}"))
}
