//! `data_out`: every `stage_out`, after the job, also after a failed one. Of a job that is known to have failed, what
//! the script stages out and the job did not come to make is not owed.

use std::sync::Arc;

use model::Token;
use model::phase::{Direction, Phase};
use wire::control::{ApiError, DataOut};

use super::{Done, require_set_up, wrong_phase};
use crate::app::App;
use crate::site::Site;
use crate::state::{activations, sessions, transfers};
use crate::token_queue::Cancelled;
use crate::transfers::job_end;
use crate::transfers::script::{self, Course};

/// Stages out.
///
/// # Errors
/// The first stage that failed, after all were tried, or `cancelled`; called again it tries those that are not
/// complete.
pub(crate) async fn run<S: Site>(
    app: &Arc<App<S>>,
    token: &Token,
    how: DataOut,
    mut cancelled: Cancelled,
) -> Result<Done, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    if session.phase >= Phase::StagedOut {
        return Ok(Done::Already);
    }
    if session.phase < Phase::Mounted {
        if has_nothing_to_stage(app, token).await? {
            // A job that only creates or destroys persistent buffers has no pre_run, and Slurm calls this all the same.
            return Ok(Done::Already);
        }
        return Err(wrong_phase(
            &session,
            "its job never ran, there is nothing to stage out",
            "tear it down",
        ));
    }
    let name = token.to_owned();
    let mounts = app.database.transact(move |tx| activations::of(tx, &name)).await?;
    if session.phase == Phase::Mounted || mounts.iter().any(|activation| activation.mounted) {
        return Err(wrong_phase(&session, "it is still mounted", "call post_run first"));
    }
    // What programs asked for, then what the script does; a failure of one keeps nobody from the other.
    let asked = job_end::finish(app, &session, &mut cancelled).await;
    let written = script::run(app, &session, Course::Out(how), cancelled).await;
    asked.and(written)?;
    let name = token.to_owned();
    let finish = move |tx: &rusqlite::Transaction<'_>| {
        sessions::set_kept(tx, &name, None)?;
        sessions::set_phase(tx, &name, Phase::StagedOut)
    };
    app.database.transact(finish).await?;
    Ok(Done::Now)
}

async fn has_nothing_to_stage<S: Site>(app: &App<S>, token: &Token) -> Result<bool, ApiError> {
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((transfers::of_script(tx, &name)?, transfers::unfinished_of_job(tx, &name, 0)?))
    };
    let (stages, asked) = app.database.transact(read).await?;
    Ok(stages.iter().all(|stage| stage.direction != Direction::Out) && asked.is_empty())
}
