//! `drain=on-close`: what a script stages out of the job's own buffer is copied by passes while the job runs.
//!
//! ```text
//! pre_run: start --PUT, while_running--> node: a worker again and again
//! data_out: PUT of the same stage to its end; the node stops the passes and goes on with their journal
//! ```
//!
//! **Invariant:** passes are noted nowhere: the stages of the script stay deferred until `data_out` runs them.

use model::Token;
use model::buffer::BufferRef;
use model::phase::{Direction, Drain, StageState};
use wire::control::{ApiError, ErrorCode};
use wire::node::StagePolicy;

use super::{runner, specification};
use crate::app::App;
use crate::lifecycle::buffers::Buffer;
use crate::pool;
use crate::site::Site;
use crate::state::instances::Instance;
use crate::state::sessions::Session;
use crate::state::transfers::{self, Transfer};

/// Starts the passes. Where that does not work all is copied at the job's end. What is copied then is told what the PFS
/// is on now.
pub(crate) async fn start<S: Site>(app: &App<S>, session: &Session, used: &[Buffer], stages: &[Transfer]) {
    let drains_itself = |which: &BufferRef| {
        used.iter().any(|of| of.which == *which && drains_itself::<S>(&of.described.instance))
    };
    let outs: Vec<Transfer> = stages.iter().filter(|stage| !drains_itself(&stage.buffer)).cloned().collect();
    specification::note_mounts(app, &outs).await;
    let drains = |buffer: &Buffer| buffer.which.is_own() && by_passes::<S>(&buffer.described.instance);
    if !used.iter().any(drains) {
        return;
    }
    for stage in stages.iter().filter(|stage| is_drained(stage)) {
        if let Err(error) = start_one(app, stage).await {
            let source = stage.source();
            tracing::warn!(token = ?session.token, source, %error, "nothing is drained while the job runs");
        }
    }
}

async fn start_one<S: Site>(app: &App<S>, stage: &Transfer) -> Result<(), ApiError> {
    let policy = StagePolicy { while_running: true, ..StagePolicy::default() };
    let order = specification::of(app, std::slice::from_ref(stage), policy).await?;
    runner::start(app, stage, &order).await.map(drop)
}

/// Gives the passes over a session's own buffer a credential of its present key. Those that have ended need none.
///
/// # Errors
/// The database's, or the node's that runs them.
pub(crate) async fn renew<S: Site>(app: &App<S>, token: &Token) -> Result<(), ApiError> {
    let wanted = token.clone();
    let stages = app.database.transact(move |tx| transfers::of_script(tx, &wanted)).await?;
    for stage in stages.iter().filter(|stage| is_drained(stage)) {
        let of = stage.clone();
        let place = app.database.transact(move |tx| specification::place_of(tx, &of)).await?;
        let Some((node, id)) = place else { continue };
        match app.site.stage(&node, &id).await {
            Err(error) if error.code == ErrorCode::NoSuchStage => continue,
            known => drop(known?),
        }
        match start_one(app, stage).await {
            // The stage itself has begun: whoever changes the key waits for that.
            Err(error) if error.code == ErrorCode::StageDiffers => {}
            started => started?,
        }
    }
    Ok(())
}

/// Whether what a job writes into its buffer is copied by passes, and not by its nodes themselves.
pub(crate) fn by_passes<S: Site>(instance: &Instance) -> bool {
    instance.behaviour.drain == Some(Drain::OnClose) && !drains_itself::<S>(instance)
}

fn drains_itself<S: Site>(instance: &Instance) -> bool {
    pool::kind::<S>(instance.kind).drains_itself()
}

/// Whether passes may be at work on a stage of a buffer that drains.
pub(crate) fn is_drained(stage: &Transfer) -> bool {
    stage.direction == Direction::Out && stage.buffer.is_own() && is_ahead(stage.state)
}

fn is_ahead(state: StageState) -> bool {
    matches!(state, StageState::Pending | StageState::Deferred)
}
