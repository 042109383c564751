//! A token that is used again: what is done with the session that had it.
//!
//! **Invariant:** a session that owes a `stage_out` is never destroyed here. It gets another token and keeps
//! everything.

use model::phase::{Function, Phase};
use wire::control::{ApiError, Setup, Teardown};

use super::mounts::unmount_all;
use super::{quarantine, teardown};
use crate::app::App;
use crate::node_api::Unmount;
use crate::site::Site;
use crate::state::sessions::Session;

/// Whether a workload manager's setup is for another job than the one that had the token: job ids are used again after
/// a crash. Also the same job is another one when its earlier run came to its end here.
pub(crate) fn is_reused(known: &Session, request: &Setup) -> bool {
    let managed = request.caller != wire::control::CLI;
    let differs = known.owner.uid != request.owner.uid || known.script.text != request.script.text;
    let over = known.phase > Phase::Mounted || known.was_mounted;
    managed && known.phase != Phase::TornDown && (differs || over)
}

/// Frees the token of `known`: destroys it if nothing is owed, else quarantines it. A stage-out that had begun goes on
/// under the new token, by itself.
///
/// # Errors
/// A node does not let go.
pub(crate) async fn make_room<S: Site>(app: &App<S>, known: &Session) -> Result<(), ApiError> {
    tracing::warn!(token = ?known.token, owner = known.owner.uid, phase = ?known.phase, "the token is used again");
    unmount_all(app, known, Unmount::AtOnce).await?;
    if teardown::owed(app, known).await?.is_none() {
        // Not in a hurry: nodes may still drain what its user asked them to.
        teardown::run(app, &known.token, Teardown { hurry: false }).await?;
        return Ok(());
    }
    let kept = "its token was used again before its data was staged out".to_owned();
    // After that the manager had asked for the stage-out: it is owed, and only its caller is gone.
    let finish = known.phase > Phase::Mounted;
    quarantine::rename(app, known, ("old", kept), finish).await.map(drop)
}

/// The functions of an earlier run that a new setup of the token does not wait for.
pub(crate) const CUT_SHORT: [Function; 2] = [Function::DataIn, Function::DataOut];
