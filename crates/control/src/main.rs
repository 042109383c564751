//! `forebay-control`: runs the control service in the foreground, and copies its database.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand};
use control::backup;

/// Connections, and what requests open.
const DESCRIPTORS: u64 = 65_536;

/// Allocates burst buffers and leads jobs through their life-cycle. On a cluster started with --config; on one machine
/// by forebay.
#[derive(Debug, Parser)]
#[command(name = "forebay-control", version)]
struct Arguments {
    /// The configuration of a cluster's control.
    #[arg(long, value_name = "FILE", conflicts_with = "dir")]
    config: Option<PathBuf>,
    /// The state folder; default $XDG_STATE_HOME/forebay, else ~/.local/state/forebay.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// Say what a start would refuse, without starting: values, users, folders, ports, MUNGE.
    #[arg(long, requires = "config")]
    check: bool,
    /// Standard input says which allocation's nodes it leads; control, and its folder, end with it.
    #[arg(long, requires = "dir", conflicts_with = "config", hide = true)]
    attended: bool,
    #[command(subcommand)]
    copies: Option<Copies>,
}

/// What is done with the database instead.
#[derive(Debug, Subcommand)]
enum Copies {
    /// Copy the database, while control runs or not.
    Backup {
        /// The copy; an older one is replaced when the new one is whole.
        file: PathBuf,
    },
    /// Put a copy in the database's place, while control does not run.
    Restore {
        /// The copy.
        file: PathBuf,
        /// Also where there is a database; it is kept as control.db-replaced.
        #[arg(long)]
        replace: bool,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => {
            // Nobody is left to be told where this fails; the exit status says enough.
            let _ =
                writeln!(io::stderr(), "{}", daemon::usage::one_line("forebay-control", &error.to_string()));
            return ExitCode::from(daemon::usage::STATUS);
        }
        Err(error) => error.exit(),
    };
    if let (true, Some(file)) = (arguments.check, &arguments.config) {
        return control::config::check(file).tell("forebay-control", file);
    }
    let done = match &arguments.copies {
        Some(copies) => copy(&arguments, copies),
        None => {
            daemon::begin::begin();
            daemon::descriptors::raise(DESCRIPTORS);
            // The last line of the log: `forebay` shows when control does not start.
            run(arguments).inspect_err(|error| tracing::error!("control does not run: {error:#}"))
        }
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says what was done, or why not.
fn copy(arguments: &Arguments, copies: &Copies) -> anyhow::Result<()> {
    let done = folder(arguments).and_then(|folder| match copies {
        Copies::Backup { file } => {
            backup::backup(&folder, file)?;
            Ok(format!("the database of {} is copied to {}", folder.display(), file.display()))
        }
        Copies::Restore { file, replace } => {
            backup::restore(&folder, file, *replace)?;
            Ok(format!(
                "the database of {} is that of {} now: start control",
                folder.display(),
                file.display()
            ))
        }
    });
    // Nobody is left to be told where this fails; the exit status says enough.
    let _ = match &done {
        Ok(text) => writeln!(io::stdout(), "forebay-control: {text}"),
        Err(error) => writeln!(io::stderr(), "forebay-control: {error:#}"),
    };
    done.map(drop)
}

fn folder(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    Ok(match &arguments.config {
        Some(file) => control::config::load(file)?.folder,
        None => disk::state::folder(arguments.dir.clone())?,
    })
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new().context("start threads")?;
    let result = runtime.block_on(async {
        let stop = daemon::signal::terminated().context("watch for signals")?;
        match arguments.config {
            Some(file) => control::service::run_cluster(control::config::load(&file)?, stop).await?,
            None if arguments.attended => attended(arguments.dir, stop).await?,
            None => control::service::run(disk::state::folder(arguments.dir)?, stop).await?,
        }
        Ok(())
    });
    // Functions that wait for a node would hold the end up; a later call goes on where they were.
    runtime.shutdown_background();
    result
}

/// As `forebay with --on-allocation` starts it.
async fn attended(
    dir: Option<PathBuf>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    let (allocation, end) = daemon::attended::told().context("read the allocation")?;
    let folder = disk::state::folder(dir)?;
    let config = control::config::of_allocation(&allocation, folder.clone());
    let end = async {
        tokio::select! { () = end => {}, () = stop => {} }
    };
    let ended = control::service::run_cluster(config, end).await;
    std::fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    Ok(ended?)
}
