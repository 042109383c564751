//! `setup`: register the session and allocate every fragment of its instance.
//!
//! The instance is in the database before its first fragment is made: a call after a crash makes the same fragments.

use daemon::error::{bug, user};
use model::phase::Phase;
use wire::control::{ApiError, Blame, Setup, VolumeKind};
use wire::node::FragmentSpec;

use super::{Done, target};
use crate::control::{Control, now_unix};
use crate::lifecycle::job_process::pool_status;
use crate::pool;
use crate::script::{self, Plan};
use crate::site::{Site, volume_for};
use crate::state::counters::{self, Counter};
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::stages;

/// The most storage nodes on one machine: each is a process.
const FRAGMENTS_MAX: u32 = 64;

/// Allocates.
///
/// # Errors
/// The script's mistakes, a pool without room, a node that does not make its fragment; nothing is left allocated then.
pub async fn run<S: Site>(control: &Control<S>, token: &str, request: Setup) -> Result<Done, ApiError> {
    if is_set_up(control, token).await? {
        return Ok(Done::Already);
    }
    let plan = script::plan(&request.script, token)?;
    let session = register(control, token, &request, &plan).await?;
    let mut instance = match find_instance(control, token).await? {
        // An earlier call broke off: its specification goes on.
        Some(instance) => instance,
        None => choose(control, token, &request, &plan).await?,
    };
    let mut made = make_fragments(control, &session, &instance).await;
    if may_fall_back(&made, &request, &instance) {
        instance = fall_back(control, token, instance).await?;
        made = make_fragments(control, &session, &instance).await;
    }
    if let Err(error) = made {
        destroy_fragments(control, &instance).await?;
        let token = token.to_owned();
        control.database.transact(move |tx| instances::delete(tx, &token)).await?;
        return Err(error);
    }
    finish(control, session, &instance).await?;
    Ok(Done::Now)
}

async fn is_set_up<S: Site>(control: &Control<S>, token: &str) -> Result<bool, ApiError> {
    let token = token.to_owned();
    let found = control.database.transact(move |tx| sessions::find(tx, &token)).await?;
    Ok(found.is_some_and(|session| !matches!(session.phase, Phase::Registered | Phase::TornDown)))
}

/// The session's row, new or from a call that broke off. A workload manager may use the token of a finished job again.
async fn register<S: Site>(
    control: &Control<S>,
    token: &str,
    request: &Setup,
    plan: &Plan,
) -> Result<Session, ApiError> {
    let session = Session {
        token: token.to_owned(),
        created_unix: now_unix(),
        owner: request.owner.clone(),
        script: request.script.clone(),
        phase: Phase::Registered,
        was_mounted: false,
        failed: None,
        kept: None,
        notes: Vec::new(),
    };
    let planned = plan.stages.clone();
    let register = move |tx: &rusqlite::Transaction<'_>| {
        let known = sessions::find(tx, &session.token)?;
        if let Some(known) = known
            && instances::find(tx, &session.token)?.is_some()
        {
            return Ok(known);
        }
        sessions::replace(tx, &session)?;
        stages::insert(tx, &session.token, &planned)?;
        Ok(session)
    };
    control.database.transact(register).await
}

async fn find_instance<S: Site>(control: &Control<S>, token: &str) -> Result<Option<Instance>, ApiError> {
    let token = token.to_owned();
    control.database.transact(move |tx| instances::find(tx, &token)).await
}

/// Decides size, nodes and volume, and notes it.
async fn choose<S: Site>(
    control: &Control<S>,
    token: &str,
    request: &Setup,
    plan: &Plan,
) -> Result<Instance, ApiError> {
    let count = request.fragments.unwrap_or(1);
    if !(1..=FRAGMENTS_MAX).contains(&count) {
        let message = format!("a buffer over {count} storage nodes is not possible");
        return Err(user("bad_fragments", message, format!("choose 1 to {FRAGMENTS_MAX}")));
    }
    let allocation = script::allocate(plan.requested_bytes, count)?;
    pool::check_free(&pool_status(control).await?, allocation.capacity_bytes)?;
    let instance = Instance {
        id: String::new(),
        key: new_key()?,
        requested_bytes: plan.requested_bytes,
        capacity_bytes: allocation.capacity_bytes,
        volume: volume_for(&control.site, request.volume, allocation.fragment_bytes),
        nodes: (0..count).map(|index| format!("n{index}")).collect(),
        access_modes: plan.access_modes.clone(),
    };
    let token = token.to_owned();
    let note = move |tx: &rusqlite::Transaction<'_>| {
        let id = format!("i{}", counters::next(tx, Counter::Instance)?);
        let instance = Instance { id, ..instance };
        instances::insert(tx, &token, &instance)?;
        Ok(instance)
    };
    control.database.transact(note).await
}

/// 32 random bytes in hexadecimal.
fn new_key() -> Result<String, ApiError> {
    let mut key = [0u8; 32];
    getrandom::fill(&mut key).map_err(|e| bug("no_random", format!("draw the instance's key: {e}")))?;
    Ok(key.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// All fragments at once: an image takes its time.
async fn make_fragments<S: Site>(
    control: &Control<S>,
    session: &Session,
    instance: &Instance,
) -> Result<(), ApiError> {
    let peers = target::addresses(control, instance).await?;
    let specs = target::fragments(instance, &session.owner, &peers);
    let all = instance.nodes.iter().zip(&specs).map(|(node, spec)| make_fragment(control, node, spec));
    // Every one is waited for, also when one fails: what comes after must find them all settled.
    join_all(all).await.into_iter().collect()
}

async fn make_fragment<S: Site>(
    control: &Control<S>,
    node: &str,
    spec: &FragmentSpec,
) -> Result<(), ApiError> {
    let status = control.site.create_fragment(node, spec).await?;
    match status.error {
        None => Ok(()),
        Some(reason) => {
            let message = format!("fragment {} of {} on node {node}: {reason}", spec.index, spec.instance);
            Err(daemon::error::site("fragment_broken", message, "look into the node's log"))
        }
    }
}

/// Destroys every fragment that was made.
///
/// # Errors
/// A node does not let go; the instance must stay noted then.
pub async fn destroy_fragments<S: Site>(control: &Control<S>, instance: &Instance) -> Result<(), ApiError> {
    let all = instance.nodes.iter().map(|node| control.site.delete_fragment(node, &instance.id));
    join_all(all).await.into_iter().collect()
}

/// An image was our own choice and the machine does not let us have one.
fn may_fall_back(made: &Result<(), ApiError>, request: &Setup, instance: &Instance) -> bool {
    let refused = matches!(made, Err(error) if error.blame == Blame::Site);
    refused && request.volume.is_none() && instance.volume == VolumeKind::Image
}

async fn fall_back<S: Site>(
    control: &Control<S>,
    token: &str,
    instance: Instance,
) -> Result<Instance, ApiError> {
    tracing::info!(token, instance = instance.id, "no image possible, use a directory");
    destroy_fragments(control, &instance).await?;
    let instance = Instance { volume: VolumeKind::Directory, ..instance };
    let (token, noted) = (token.to_owned(), instance.clone());
    let note = move |tx: &rusqlite::Transaction<'_>| {
        instances::delete(tx, &token)?;
        instances::insert(tx, &token, &noted)
    };
    control.database.transact(note).await?;
    Ok(instance)
}

async fn finish<S: Site>(
    control: &Control<S>,
    session: Session,
    instance: &Instance,
) -> Result<(), ApiError> {
    let notes: Vec<String> =
        script::rounding_note(instance.requested_bytes, instance.capacity_bytes).into_iter().collect();
    let finish = move |tx: &rusqlite::Transaction<'_>| {
        sessions::set_notes(tx, &session.token, &notes)?;
        sessions::set_phase(tx, &session.token, Phase::Ready)
    };
    control.database.transact(finish).await
}

/// Runs futures at once and collects their results in order.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut all_done = true;
        for (future, output) in pending.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(done) => *output = Some(done),
                std::task::Poll::Pending => all_done = false,
            }
        }
        if all_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}
