//! `forebay-node`: runs a node in the foreground.

use std::io::{self, Write};
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use model::NodeName;
use node::config::Config;
use node::service;
use wire::control::NodeRole;

/// Stores fragments of burst buffers, mounts them and copies their stages. On a cluster started with --config; on one
/// machine by forebay-control.
#[derive(Debug, Parser)]
#[command(name = "forebay-node", version)]
struct Arguments {
    /// The configuration of a cluster's node.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "name", "roles"])]
    config: Option<PathBuf>,
    /// Say what a start would refuse, without starting: values, users, folders, ports, MUNGE.
    #[arg(long, requires = "config")]
    check: bool,
    /// The node's folder; made if missing.
    #[arg(long, value_name = "FOLDER", required_unless_present = "config")]
    dir: Option<PathBuf>,
    /// The node's name.
    #[arg(long, required_unless_present = "config")]
    name: Option<NodeName>,
    /// Standard input says which allocation it is a node of; the node ends with it.
    #[arg(long, requires = "dir", hide = true)]
    attended: bool,
    /// What the node does.
    #[arg(long, value_delimiter = ',', default_value = "storage,compute")]
    roles: Vec<Role>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Role {
    Storage,
    Compute,
}

/// For objects that are kept open, and a thousand clients.
const DESCRIPTORS: u64 = 65_536;

/// The environment variable for the time after which an object counts as at rest, milliseconds: for tests.
const REST_VARIABLE: &str = "FOREBAY_SEAL_AFTER_MS";

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // Nobody is left to be told where this fails; the exit status says enough.
            let _ = writeln!(io::stderr(), "{}", daemon::usage::one_line("forebay-node", &error.to_string()));
            return ExitCode::from(daemon::usage::STATUS);
        }
        Err(error) => error.exit(),
    };
    if let (true, Some(file)) = (arguments.check, &arguments.config) {
        return node::config::check(file).tell("forebay-node", file);
    }
    daemon::begin::begin();
    daemon::descriptors::raise(DESCRIPTORS);
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The last line of the log: control shows when a node does not start.
            tracing::error!("node does not run: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let (config, attendance) = match &arguments.config {
        Some(file) => (node::config::load(file)?, None),
        None if arguments.attended => attended(arguments)?,
        None => (embedded(arguments)?, None),
    };
    if let Some(rest) = rest()? {
        store::seal_after(rest);
    }
    let runtime = tokio::runtime::Runtime::new().context("start threads")?;
    let result = runtime.block_on(async {
        let stop = daemon::signal::terminated().context("watch for signals")?;
        let stop = async {
            match attendance {
                Some(end) => tokio::select! { () = end => {}, () = stop => {} },
                None => stop.await,
            }
        };
        Ok(service::run(config, stop).await?)
    });
    // Tasks that supervise mounts never end by themselves.
    runtime.shutdown_background();
    result
}

/// How long an object is left alone before it is sealed, if the environment says so.
fn rest() -> anyhow::Result<Option<Duration>> {
    let Ok(text) = std::env::var(REST_VARIABLE) else { return Ok(None) };
    let millis = text
        .parse()
        .with_context(|| format!("invalid {REST_VARIABLE}={text}: not a number of milliseconds"))?;
    Ok(Some(Duration::from_millis(millis)))
}

/// Completes when nobody attends the node any more.
type Attendance = Pin<Box<dyn Future<Output = ()> + Send>>;

/// As `forebay with --on-allocation` has it started on each host.
fn attended(arguments: Arguments) -> anyhow::Result<(Config, Option<Attendance>)> {
    let (allocation, end) = daemon::attended::told().context("read the allocation")?;
    let name = arguments.name.context("--name is missing")?;
    let folder = disk::state::folder(arguments.dir)?;
    Ok((node::config::of_allocation(&allocation, name, folder)?, Some(Box::pin(end))))
}

/// As control on the same machine starts it.
fn embedded(arguments: Arguments) -> anyhow::Result<Config> {
    let role = |role| match role {
        Role::Storage => NodeRole::Storage,
        Role::Compute => NodeRole::Compute,
    };
    Ok(Config {
        folder: disk::state::folder(arguments.dir)?,
        name: arguments.name.context("--name is missing")?,
        roles: arguments.roles.into_iter().map(role).collect(),
        cluster: None,
    })
}
