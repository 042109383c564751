//! `forebay status`: pools, nodes and buffers, and what to do about each.

mod copies;
pub mod filter;
mod mirrors;
pub mod next;
pub mod report;
mod row;
mod stages;

use std::path::PathBuf;
use std::time::Duration;

use model::phase::Phase;
use wire::control::SessionStatus;

use super::Context;
use crate::arguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::retries::ASKED_FOR;
use next::Run;
use report::Report;

/// Between two looks of `--watch`.
pub const AGAIN: Duration = Duration::from_secs(1);

/// Shows the status; the result is the process's exit status.
///
/// # Errors
/// The service is not to be reached.
pub async fn run(
    arguments: &arguments::Status,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let shown = show(&context, arguments).await;
    context.service.stop_if_started().await;
    shown
}

async fn show(context: &Context, arguments: &arguments::Status) -> Result<u8, Failure> {
    loop {
        let mut status = filter::of(context.service.status().await?, arguments)?;
        status.sessions.iter_mut().for_each(|session| note_kept(context, session));
        let report = Report::of(status, &context.output, |session| run_of(context, session));
        report.kept_in(context.service.folder()).show(&context.output, arguments);
        if !arguments.watch || context.output.is_unread() {
            return Ok(ExitCode::Success.number());
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = context.interrupts.reached(1) => return Ok(ExitCode::Success.number()),
        }
    }
}

/// Control knows nothing of `--keep`.
fn note_kept(context: &Context, session: &mut SessionStatus) {
    if session.phase != Phase::StagedOut || session.kept.is_some() {
        return;
    }
    let record = context.records.read(&session.token).ok().flatten();
    if record.is_some_and(|record| record.keep && record.is_of(session)) {
        session.kept = Some(ASKED_FOR.to_owned());
    }
}

fn run_of(context: &Context, session: &SessionStatus) -> Run {
    match (context.records.is_live(&session.token), context.records.read(&session.token)) {
        (true, _) => Run::Live,
        (false, Ok(Some(record))) if record.is_of(session) => Run::Interrupted,
        // Of one that cannot be read `run --resume` says why.
        (false, Err(_)) => Run::Interrupted,
        (false, Ok(_)) => Run::None,
    }
}
