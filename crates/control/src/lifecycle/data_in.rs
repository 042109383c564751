//! `data_in`: every `stage_in`, before the job. After a failure the rest is not started: the job cannot run.

use model::Token;
use model::phase::Phase;
use wire::control::ApiError;

use super::{Done, require_set_up};
use crate::app::App;
use crate::site::Site;
use crate::state::sessions;
use crate::token_queue::Cancelled;
use crate::transfers::script::{self, Course};

/// Stages in.
///
/// # Errors
/// The first stage that failed, or `cancelled`; called again it goes on there.
pub(crate) async fn run<S: Site>(
    app: &App<S>,
    token: &Token,
    cancelled: Cancelled,
) -> Result<Done, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    if session.phase >= Phase::StagedIn {
        return Ok(Done::Already);
    }
    script::run(app, &session, Course::In, cancelled).await?;
    let token = token.to_owned();
    app.database.transact(move |tx| sessions::set_phase(tx, &token, Phase::StagedIn)).await?;
    Ok(Done::Now)
}
