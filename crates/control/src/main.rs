//! `forebay-control`: runs the control service in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

/// Connections, and what requests open.
const DESCRIPTORS: u64 = 65_536;

/// Allocates burst buffers and leads jobs through their life-cycle. On a cluster started with --config; on one machine
/// by forebay.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The configuration of a cluster's control.
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    config: Option<PathBuf>,
    /// The state folder; default $XDG_STATE_HOME/forebay, else ~/.local/state/forebay.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
}

fn main() -> ExitCode {
    daemon::begin::begin();
    daemon::descriptors::raise(DESCRIPTORS);
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The last line of the log: `forebay` shows when control does not start.
            tracing::error!("control does not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start threads")?;
    let result = runtime.block_on(async {
        let stop = daemon::signal::terminated().context("watch for signals")?;
        match arguments.config {
            Some(file) => control::service::run_cluster(control::config::load(&file)?, stop).await?,
            None => control::service::run(disk::state::folder(arguments.dir)?, stop).await?,
        }
        Ok(())
    });
    // Functions that wait for a node would hold the end up; a later call goes on where they were.
    runtime.shutdown_background();
    result
}
