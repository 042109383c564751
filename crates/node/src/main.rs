//! `forebay-node`: runs a node in the foreground.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use node::service::{self, Config, Role};

/// Stores fragments of burst buffers, mounts them and copies their stages. Started by forebay-control.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The node's folder; made if missing.
    #[arg(long, value_name = "FOLDER")]
    dir: PathBuf,
    /// The node's name.
    #[arg(long)]
    name: String,
    /// What the node does.
    #[arg(long, value_delimiter = ',', default_value = "storage,compute")]
    roles: Vec<Role>,
}

fn main() -> ExitCode {
    daemon::logging::init();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The last line of the log: control shows when a node does not start.
            tracing::error!("node does not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let folder = daemon::state::folder(Some(arguments.dir))?;
    let config = Config { folder, name: arguments.name, roles: arguments.roles };
    let runtime = tokio::runtime::Runtime::new().context("start threads")?;
    let result = runtime.block_on(async {
        let stop = daemon::signal::terminated().context("watch for signals")?;
        Ok(service::run(config, stop).await?)
    });
    // Tasks that supervise mounts never end by themselves.
    runtime.shutdown_background();
    result
}
