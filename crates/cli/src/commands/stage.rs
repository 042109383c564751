//! `forebay stage`: stages on demand, in a job and outside, and the retry of a kept buffer's.

mod client;
mod kept;
mod places;
mod retry;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::phase::{Direction, StageState};
use serde::Serialize;
use wire::control::{
    Change, ErrorCode, Place, StageChange, StageCounts, StageDue, StageQuery, StageRequest, StageScope,
    StageStatus, StageTickets,
};

use self::client::Client;
use crate::arguments::{self, Stage};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::progress::{View, describe_end, title};
use crate::session::failure_lines;
use crate::{render, retries};

/// Between two looks at running stages, milliseconds: short enough for a smooth bar.
const LOOK_MS: u64 = 250;

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    stages: &'a [StageStatus],
}

/// Runs one of the commands; the result is the process's exit status.
///
/// # Errors
/// There is no such buffer, or control refuses.
pub async fn run(
    command: &Stage,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    if let Stage::Retry(retry) = command
        && retry.path.is_none()
    {
        let token = arguments::token_or_usage(retry.token(), "name its token; `forebay status` lists them")?;
        return match cluster {
            true => kept::retry(&token, output).await,
            false => retry::retry(&token, output, dir).await,
        };
    }
    let client = Client::open(cluster, output, dir).await?;
    let ended = match command {
        Stage::In(arguments) => ask(&client, Direction::In, arguments, StageDue::Now, output).await,
        Stage::Out(out) => {
            let due = if out.at_job_end { StageDue::AtJobEnd } else { StageDue::Now };
            ask(&client, Direction::Out, &out.stage, due, output).await
        }
        Stage::Status(which) => status(&client, which, output).await,
        Stage::Wait(which) => wait(&client, which, output).await,
        Stage::Retry(retry) => change(&client, &retry.which(), Change::Retry, output).await,
        Stage::Cancel(which) => change(&client, which, Change::Terminate, output).await,
    };
    client.close().await;
    ended.map_err(|failure| of_another(failure, command))
}

/// Control says of a buffer of another user's that there is none, also where `forebay status` shows it.
fn of_another(failure: Failure, command: &Stage) -> Failure {
    match (command.persistent(), &failure) {
        (Some(name), Failure::Api(error)) if error.code == ErrorCode::NoSuchSession => Failure::no_input(
            format!(
                "the persistent buffer {name} is another user's, and only its owner stages without a job"
            ),
            format!("stage in a job of your own, with `#DW persistentdw name={name}`, or ask the owner"),
        ),
        _ => failure,
    }
}

async fn ask(
    client: &Client,
    direction: Direction,
    arguments: &arguments::Ask,
    due: StageDue,
    output: &Output,
) -> Result<u8, Failure> {
    let (place, kind, pairs) = places::of_request(client, direction, arguments).await?;
    let count = pairs.len() as u64;
    let request = StageRequest { place: place.clone(), direction, kind, due, pairs };
    let tickets: StageTickets = client.post("", &request).await?;
    let scope = StageScope::Ids(tickets.ids.clone());
    if arguments.common.wait && due == StageDue::Now {
        return follow(client, &place, &scope, output).await;
    }
    if output.json() {
        return report(&list(client, &place, &scope, 0).await?, output);
    }
    let first = tickets.ids.first().map_or("", String::as_str);
    let when = if due == StageDue::AtJobEnd { "will be staged at the end of the job" } else { "accepted" };
    output.say(&format!("forebay: {when}: {} ({first})", render::counted(count, "stage", "stages")));
    if due == StageDue::Now
        && let Some(path) = buffer_side(direction, arguments)
    {
        let which = arguments.common.words();
        let command = output.command(&format!("stage wait {}{which}", render::word(path)));
        output.note(&format!("         `{command}` shows how it goes"));
    }
    Ok(ExitCode::Success.number())
}

/// The path in the buffer, as it was typed; a list has many.
fn buffer_side(direction: Direction, arguments: &arguments::Ask) -> Option<&Path> {
    match direction {
        _ if arguments.kind == Some(arguments::Kind::List) => None,
        Direction::In => arguments.destination.as_deref(),
        Direction::Out => Some(&arguments.source),
    }
}

async fn status(client: &Client, which: &arguments::Which, output: &Output) -> Result<u8, Failure> {
    let (place, scope) = places::of_which(client, which).await?;
    let stages = list(client, &place, &scope, 0).await?;
    if output.json() {
        return report(&stages, output);
    }
    if stages.is_empty() {
        output.say("forebay: nothing was staged on demand there");
    }
    for stage in &stages {
        output.say(&format!("{} {}: {}", stage.id, title(stage), describe_end(stage)));
    }
    for direction in [Direction::In, Direction::Out] {
        failure_lines(&stages, direction).iter().for_each(|line| output.say(line));
    }
    again(&stages, output).iter().for_each(|line| output.say(line));
    Ok(ExitCode::Success.number())
}

async fn wait(client: &Client, which: &arguments::Which, output: &Output) -> Result<u8, Failure> {
    let (place, scope) = places::of_which(client, which).await?;
    let stages = list(client, &place, &scope, 0).await?;
    if stages.is_empty() {
        return Err(Failure::no_input(
            "nothing was staged on demand there",
            "`forebay stage status` lists what was",
        ));
    }
    follow(client, &place, &scope, output).await
}

/// Shows stages until none is under way.
async fn follow(client: &Client, place: &Place, scope: &StageScope, output: &Output) -> Result<u8, Failure> {
    let begin = Instant::now();
    let mut views = [Direction::In, Direction::Out].map(|direction| View::new(direction, output));
    let mut wait_ms = 0;
    loop {
        let stages = list(client, place, scope, wait_ms).await?;
        views.iter_mut().for_each(|view| view.update(begin.elapsed(), &stages, output));
        let at_work = |stage: &StageStatus| matches!(stage.state, StageState::Pending | StageState::Active);
        if !stages.iter().any(at_work) {
            return conclude(&stages, begin.elapsed(), output);
        }
        wait_ms = LOOK_MS;
        if client.interrupted() {
            output.note("forebay: the stages go on; `forebay stage cancel` stops them");
            return Ok(ExitCode::Cancelled.number());
        }
    }
}

fn conclude(stages: &[StageStatus], elapsed: Duration, output: &Output) -> Result<u8, Failure> {
    let failed = stages.iter().any(|stage| stage.state == StageState::Failed);
    let complete = stages.iter().filter(|stage| stage.state == StageState::Complete);
    let bytes = complete.clone().map(|stage| stage.progress.bytes_done).sum();
    output.note(&format!(
        "forebay: {} of {} complete and verified, {}, {}",
        complete.count(),
        render::counted(stages.len() as u64, "stage", "stages"),
        render::bytes(bytes),
        render::span(elapsed)
    ));
    for direction in [Direction::In, Direction::Out] {
        failure_lines(stages, direction).iter().for_each(|line| output.note(line));
    }
    again(stages, output).iter().for_each(|line| output.note(line));
    if output.json() {
        report(stages, output)?;
    }
    Ok(if failed { ExitCode::StageOut } else { ExitCode::Success }.number())
}

/// How what failed is done again.
fn again(stages: &[StageStatus], output: &Output) -> Vec<String> {
    let commands = stages.iter().filter_map(|stage| retries::command(stage, output));
    commands.map(|command| format!("         `{command}` does it again")).collect()
}

async fn change(
    client: &Client,
    which: &arguments::Which,
    change: Change,
    output: &Output,
) -> Result<u8, Failure> {
    let (place, scope) = places::of_which(client, which).await?;
    let before = list(client, &place, &scope, 0).await?;
    let request = StageChange { place: place.clone(), scope: scope.clone(), change };
    let changed: StageCounts = client.post("/change", &request).await?;
    if changed.is_empty() {
        let nothing =
            if change == Change::Retry { "nothing has failed there" } else { "nothing is under way there" };
        return Err(Failure::no_input(nothing, "`forebay stage status` lists what was staged"));
    }
    if change == Change::Retry && which.common.wait {
        return follow(client, &place, &scope, output).await;
    }
    if output.json() {
        return report(&before, output);
    }
    let word = if change == Change::Retry { "begun again" } else { "cancelled" };
    // A folder is one stage, however many files are in it.
    let meant = |stage: &&StageStatus| (stage.state == StageState::Failed) == (change == Change::Retry);
    let count =
        before.iter().filter(meant).filter(|stage| stage.state != StageState::Complete).count() as u64;
    output.say(&format!("forebay: {word}: {}", render::counted(count.max(1), "stage", "stages")));
    Ok(ExitCode::Success.number())
}

fn report(stages: &[StageStatus], output: &Output) -> Result<u8, Failure> {
    output.object(&Report { schema: 1, stages });
    Ok(ExitCode::Success.number())
}

/// All of them. A reply has room for some only; the first says when all have ended.
async fn list(
    client: &Client,
    place: &Place,
    scope: &StageScope,
    wait_ms: u64,
) -> Result<Vec<StageStatus>, Failure> {
    let mut all: Vec<StageStatus> = Vec::new();
    let mut wait_ms = wait_ms;
    loop {
        let after = all.last().map(|stage| stage.id.clone());
        let query = StageQuery { place: place.clone(), scope: scope.clone(), wait_ms, after: after.clone() };
        let asked = tokio::time::timeout(Duration::from_secs(600), client.post("/list", &query)).await;
        let mut next: Vec<StageStatus> = asked.map_err(|_| {
            Failure::unavailable("control does not say how stages are", "repeat the command")
        })??;
        // A control that knows nothing of `after` lists all again.
        if next.is_empty() || next.last().map(|stage| &stage.id) == after.as_ref() {
            return Ok(all);
        }
        all.append(&mut next);
        wait_ms = 0;
    }
}
