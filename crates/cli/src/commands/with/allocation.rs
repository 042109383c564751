//! A buffer over the hosts of an allocation, for as long as one command runs: control beside that command, and a node
//! on each host. They know each other by a key that is drawn here, and reaches them through their standard input alone.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::time::Duration;

use wire::control::{Allocation, Registered, Status};
use wire::data::hello::Key;

use super::hosts::Hosts;
use super::launcher::Launcher;
use crate::arguments::{Run, Volume};
use crate::commands::run::one;
use crate::commands::{Context, check};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::script::Submission;
use crate::{env, identity, preflight};

/// Between two looks whether control has heard every node.
const LOOK: Duration = Duration::from_millis(10);

/// Runs what was checked here; the result is the process's exit status. `dir` is where every host keeps it.
///
/// # Errors
/// What keeps the job from having a buffer; the host is named.
pub async fn run(
    arguments: &Run,
    submission: Submission,
    hosts: Hosts,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    // Nothing is kept of such a buffer: what its stages could not do is said before there is one.
    check::refuse_wrong_places(&submission)?;
    preflight::can_mount()?;
    let allocation = allocation(&hosts, dir)?;
    let folder = allocation.control_folder();
    DirBuilder::new().mode(0o700).create(&folder).map_err(|e| Failure::local("make", &folder, &e))?;
    let line = serde_json::to_string(&allocation).expect("its keys are strings");
    let mut context = Context::open(output, Some(folder))?;
    context.service = context.service.attended(line);
    let submission = Submission { hosts: hosts.names, ..submission };
    let ended = match Launcher::start(&allocation, output).await {
        Ok(mut launcher) => {
            let ended = during(&context, arguments, &submission, &mut launcher).await;
            launcher.end().await;
            ended
        }
        Err(failure) => Err(failure),
    };
    context.service.release().await;
    ended
}

/// From the start of the nodes to the end of the job.
async fn during(
    context: &Context,
    arguments: &Run,
    submission: &Submission,
    launcher: &mut Launcher,
) -> Result<u8, Failure> {
    tokio::select! {
        ready = ready(context, launcher) => ready?,
        () = context.interrupts.reached(1) => return Err(Failure::Refused {
            exit: ExitCode::Cancelled,
            message: "interrupted before the nodes were ready".into(),
            advice: "nothing was copied and nothing is left".into(),
        }),
    }
    let mut job = arguments.job.clone();
    job.volume = Some(Volume::Directory);
    let arguments = Run { job, arguments: arguments.arguments.clone(), ..Run::default() };
    one(context, &arguments, submission, launcher.lost()).await
}

/// Starts control, and waits until it has heard every node.
async fn ready(context: &Context, launcher: &mut Launcher) -> Result<(), Failure> {
    let (nodes, up) = tokio::join!(launcher.ready(), context.service.ensure_up());
    up?;
    for node in nodes? {
        let _: Registered = context.service.post("/v1/nodes", &node).await?;
    }
    while context.service.get::<Status>("/v1/status").await?.nodes.iter().any(|node| !node.online) {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

fn allocation(hosts: &Hosts, dir: Option<PathBuf>) -> Result<Allocation, Failure> {
    let failed = |e: std::io::Error| Failure::unavailable(format!("draw a key: {e}"), "repeat the command");
    let (key, name) = (Key::draw().map_err(failed)?, Key::draw().map_err(failed)?);
    let (from, parent) = match dir {
        Some(dir) => ("--dir", dir),
        None => ("TMPDIR", env::temporary_folder()),
    };
    let parent = parent.canonicalize().map_err(|error| {
        Failure::no_input(
            format!("{from} {}: {error}", parent.display()),
            "name a folder that is on every node of the job, as --dir /local/nvme",
        )
    })?;
    // Unlike the key this is seen by everybody: it only keeps two commands, and two users, out of each other's way.
    let name = format!("forebay-{}-{}", identity::owner().uid, &String::from(name)[..12]);
    Ok(Allocation { key, folder: parent.join(name), hosts: hosts.addressed()? })
}
