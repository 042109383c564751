//! The commands, a file each, and what they share: the state folder, its service, the terminal.

mod attend;
mod check;
mod cluster;
mod drain;
pub mod integrity;
mod local;
pub mod mount;
mod node;
mod persistent;
mod programs;
pub mod rekey;
pub mod rm;
pub mod run;
pub mod srun;
pub mod stage;
pub mod status;
pub mod umount;
pub mod with;

use std::path::PathBuf;
use std::time::Duration;

use model::Token;
use serde::Serialize;
use wire::control::{ApiError, SessionStatus};

use crate::arguments::{self, Command, Mount};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::Output;
use crate::run_record::Records;
use crate::service::Service;
use crate::session::Session;
use crate::summary::Summary;
use crate::{block_on, env};

/// What every command that talks to control has.
pub struct Context {
    /// Where words go.
    pub output: Output,
    /// The service of the state folder.
    pub service: Service,
    /// The records of running scripts.
    pub records: Records,
    /// The user's wish to stop.
    pub interrupts: Interrupts,
}

impl Context {
    /// Opens the state folder `dir`, or the default one.
    ///
    /// # Errors
    /// There is none, or it cannot be used.
    pub fn open(output: &Output, dir: Option<PathBuf>) -> Result<Context, Failure> {
        let folder = disk::state::folder(dir.or_else(env::state_folder)).map_err(|e| {
            Failure::unavailable(daemon::error::chain(&e), "choose another folder with --dir")
        })?;
        api::endpoint::check_state_folder(&folder).map_err(|e| {
            Failure::usage(
                daemon::error::chain(&e),
                "choose a folder with a shorter path, by --dir or FOREBAY_DIR",
            )
        })?;
        let interrupts = Interrupts::listen()
            .map_err(|e| Failure::unavailable(format!("listen for signals: {e}"), "look at `ulimit -a`"))?;
        Ok(Context {
            output: output.clone(),
            service: Service::new(&folder, output),
            records: Records::open(&folder)?,
            interrupts,
        })
    }

    /// The session `token`.
    pub fn session(&self, token: &Token) -> Session<'_> {
        Session {
            service: &self.service,
            output: &self.output,
            interrupts: &self.interrupts,
            token: token.to_owned(),
        }
    }

    /// The status of the session `token`, which the user named.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn known(&self, token: &Token) -> Result<SessionStatus, Failure> {
        self.session(token).status_if_known().await?.ok_or_else(|| Failure::no_buffer(token))
    }

    /// Ends processes that an interrupted run of `token` left.
    ///
    /// # Errors
    /// Nobody knows whether it left any: its record cannot be read.
    pub async fn end_leftover(&self, token: &Token) -> Result<(), Failure> {
        let Some(record) = self.records.read(token)? else { return Ok(()) };
        let known = self.session(token).status_if_known().await?;
        if known.is_some_and(|known| !record.is_of(&known)) {
            return Ok(());
        }
        if let Some(group) = record.leftover(self.service.folder()) {
            self.output
                .note(&format!("forebay: ending the processes that an interrupted run of {token} left"));
            group.end(crate::process::TERMINATION).await;
        }
        Ok(())
    }
}

/// What `--json` prints of a command without a summary that came to no result.
#[derive(Serialize)]
struct Refused {
    schema: u32,
    error: ApiError,
}

/// Runs a command to the process's exit status, and says why where it failed.
pub fn run(command: Command, dir: Option<PathBuf>) -> u8 {
    let (json, summarised) = for_programs(&command);
    let cluster = cluster::is_meant(dir.as_deref());
    let output = Output::new(json, folder_of(&command, cluster, dir.clone()));
    if let Some(remark) = daemon::logging::unknown_level() {
        output.note(&format!("forebay: note: {remark}"));
    }
    let only_words = has_only_words(&command);
    let ended = match &command {
        Command::Drain(arguments) => drain::run(arguments, &output),
        Command::Local(arguments) => block_on(local::run(arguments, &output)),
        Command::Node(command) if cluster => node::cluster_run(command, &output),
        Command::Status(arguments) if cluster => cluster::status(arguments, &output),
        Command::Rm(arguments) if cluster => cluster::rm(arguments, &output),
        Command::Scrub(arguments) if cluster => integrity::cluster_scrub(arguments, &output),
        Command::Fsck(arguments) if cluster => integrity::cluster_fsck(arguments, &output),
        Command::Rekey(arguments) if cluster => rekey::cluster_run(arguments, &output),
        Command::Mount(Mount { persistent: Some(name), path, .. }) if cluster => {
            persistent::mount(name, path.as_deref(), &output)
        }
        _ => run_own(command, cluster, &output, dir),
    };
    ended.unwrap_or_else(|failure| {
        let failure = if only_words { failure.of_command_line() } else { failure };
        output.note(&failure.shown());
        if json && summarised {
            output.object(&Summary::of_refusal(failure.exit_code(), failure.as_api_error()));
        } else if json && !output.has_result() {
            output.object(&Refused { schema: 1, error: failure.as_api_error() });
        }
        failure.exit_code().number()
    })
}

/// Whether only its command line can be wrong: of the others the script, or a list of files, may be.
fn has_only_words(command: &Command) -> bool {
    use Command::{Fsck, Mount, Rekey, Rm, Scrub, Umount, With};
    matches!(command, With(_) | Mount(_) | Umount(_) | Rm(_) | Scrub(_) | Fsck(_) | Rekey(_))
}

/// Whether the result is for programs, and whether that is a summary also where the command was refused.
fn for_programs(command: &Command) -> (bool, bool) {
    match command {
        Command::Run(run) => (run.job.json, true),
        Command::With(with) => (with.job.json, true),
        Command::Stage(stage) => (stage.json(), true),
        Command::Check(check) => (check.json, false),
        Command::Status(status) => (status.json, false),
        Command::Scrub(scrub) => (scrub.json, false),
        Command::Fsck(fsck) => (fsck.json, false),
        Command::Rekey(rekey) => (rekey.json, false),
        Command::Node(arguments::Node::Lost { json, .. }) => (*json, false),
        _ => (false, false),
    }
}

/// The `--dir` that commands must have which we advise: they find the buffer where it is.
fn folder_of(command: &Command, cluster: bool, dir: Option<PathBuf>) -> Option<PathBuf> {
    use Command::{Check, Fsck, Node, Rekey, Rm, Scrub, Stage, Status};
    let is_of_either = match command {
        Check(_) | Status(_) | Rm(_) | Stage(_) | Scrub(_) | Fsck(_) | Rekey(_) | Node(_) => true,
        Command::Mount(mount) => mount.persistent.is_some(),
        _ => false,
    };
    if cluster && !is_of_either { disk::state::folder(None).ok() } else { dir }
}

/// How long a command that was interrupted may take to end by itself.
const GRACE: Duration = Duration::from_secs(1);

/// The same with this user's own control service; stages also with a cluster's.
fn run_own(command: Command, cluster: bool, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    use arguments::Stage::Retry;
    // These see to interrupts by themselves, and calls of a cluster's control block: the signal ends them.
    let cleans_up = match &command {
        Command::Run(_) | Command::With(_) | Command::Attend { .. } => true,
        // Of a cluster's, too.
        Command::Check(_) => cluster,
        Command::Stage(stage) => cluster || matches!(stage, Retry(retry) if retry.path.is_none()),
        _ => false,
    };
    let running = run_async(command, cluster, output, dir);
    block_on(async {
        if cleans_up {
            return running.await;
        }
        tokio::select! {
            ended = running => ended,
            interrupted = interrupted() => Err(interrupted),
        }
    })
}

/// Why a command ends that was interrupted while control has not answered: what that was asked for goes on.
async fn interrupted() -> Failure {
    match Interrupts::listen() {
        Ok(interrupts) => interrupts.reached(1).await,
        // The command listens as well, and says so.
        Err(_) => std::future::pending().await,
    }
    tokio::time::sleep(GRACE).await;
    Failure::Refused {
        exit: ExitCode::Cancelled,
        message: "interrupted before forebay-control has answered".into(),
        advice: "`forebay status` says what it did".into(),
    }
}

async fn run_async(
    command: Command,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    match command {
        Command::Run(arguments) => run::run(*arguments, output, dir).await,
        Command::With(arguments) => with::run(*arguments, output, dir).await,
        Command::Attend { clear } => attend::run(clear).await,
        Command::Check(arguments) => check::run(&arguments, cluster, output, dir).await,
        Command::Status(arguments) => status::run(&arguments, output, dir).await,
        Command::Rm(arguments) => rm::run(&arguments, output, dir).await,
        Command::Scrub(arguments) => integrity::scrub(&arguments, output, dir).await,
        Command::Fsck(arguments) => integrity::fsck(&arguments, output, dir).await,
        Command::Rekey(arguments) => rekey::run(&arguments, output, dir).await,
        Command::Stage(command) => stage::run(&command, cluster, output, dir).await,
        Command::Mount(arguments) => mount::run(&arguments, output, dir).await,
        Command::Umount(arguments) => umount::run(&arguments, cluster, output, dir).await,
        Command::Node(command) => node::run(&command, output, dir).await,
        Command::Srun { .. } | Command::SrunRank { .. } | Command::Drain(_) | Command::Local(_) => {
            Ok(ExitCode::Bug.number())
        }
    }
}
