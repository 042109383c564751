//! Buffers of a pool of kind node-local: on each node of the job a private volume on its own flash, at
//! `LOCAL_ROOT/USER`.
//!
//! The volume is made at `pre_run`, when the nodes are known, and let go at `post_run`. From then on it is its node's:
//! it drains what is owed and discards the volume, whatever becomes of control. `data_out` waits for that and says how
//! it went.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daemon::error::{site, user};
use model::phase::{AccessMode, Direction, StageKind, StageState};
use wire::control::{ApiError, SLURM};
use wire::node::{LocalDrain, LocalSpec, LocalStatus};

use super::{absent, join_all};
use crate::app::App;
use crate::node_api::Release;
use crate::pool::Ground;
use crate::script::{Own, Plan};
use crate::site::{PoolKind, Site};
use crate::state::activations::{self, Activation};
use crate::state::instances::{self, Instance};
use crate::state::leftovers::{self, Kind, Leftover};
use crate::state::sessions::Session;
use crate::state::transfers::{self, Transfer};

/// How often nodes are asked whether a volume is drained.
const POLL: Duration = Duration::from_millis(500);

/// How long a volume may be kept before that counts as a failure, beyond the time in which the job's processes end: as
/// long as they run, their files are open.
const KEPT_MAX: Duration = Duration::from_secs(15);

/// Whether the pool is the flash of the job's own nodes; `None` names the default pool.
///
/// # Errors
/// There is no such pool.
pub(crate) fn are_meant<S: Site>(app: &App<S>, pool: Option<&str>) -> Result<bool, ApiError> {
    let ground = Ground::of(&app.site)?;
    Ok(ground.pool(pool)?.kind == PoolKind::NodeLocal)
}

/// Refuses a persistent buffer there.
///
/// # Errors
/// The pool is the flash of jobs' own nodes.
pub(crate) fn refuse_persistent<S: Site>(app: &App<S>, pool: Option<&str>) -> Result<(), ApiError> {
    if !are_meant(app, pool)? {
        return Ok(());
    }
    let message = format!("pool {} is the flash of each job's own nodes", pool.unwrap_or_default());
    Err(user("not_persistent", message, "create the persistent buffer in another pool"))
}

/// What such a buffer cannot do.
///
/// # Errors
/// The script asks for it.
pub(crate) fn check(plan: &Plan, own: &Own) -> Result<(), ApiError> {
    let pool = own.pool.as_deref().unwrap_or_default();
    match own.access_modes.as_slice() {
        [AccessMode::Private] => {}
        [AccessMode::Striped] => return check_spread(plan),
        _ => {
            let message =
                format!("pool {pool} gives striped buffers or private volumes, not both to one job");
            return Err(user("not_built", message, "write access_mode=private or access_mode=striped"));
        }
    }
    let mut outs = 0;
    for stage in plan.stages.iter().filter(|stage| stage.buffer.is_empty()) {
        let refuse = |why: &str, advice: &str| {
            Err(user("private_stage", format!("{}: {why}", stage.source()), advice))
        };
        match (stage.direction, stage.kind) {
            (Direction::In, _) => {
                return refuse("nothing is staged into private volumes", "copy within the job");
            }
            (Direction::Out, StageKind::Directory) => outs += 1,
            (Direction::Out, _) => {
                return refuse("private volumes are drained by folders", "write type=directory");
            }
        }
        if outs > 1 {
            return refuse(
                "a private volume is drained to one place",
                "write one stage_out of the common folder",
            );
        }
    }
    if own.drain.is_some() && outs == 0 {
        let message = "drain=on-close without a stage_out does not say where to";
        let advice = "add #DW stage_out type=directory source=$DW_JOB_PRIVATE/ destination=/a/folder, or leave drain= \
                      out and set PERSIST_DIR and PFS_DIR in the script";
        return Err(user("no_destination", message, advice));
    }
    Ok(())
}

/// What a buffer that is striped over the job's own nodes cannot do.
fn check_spread(plan: &Plan) -> Result<(), ApiError> {
    let ins = plan.stages.iter().find(|stage| stage.buffer.is_empty() && stage.direction == Direction::In);
    let Some(stage) = ins else { return Ok(()) };
    let message = format!("{}: nothing is staged in before the nodes of the job are known", stage.source());
    Err(user(
        "early_stage",
        message,
        "stage in within the job, with `forebay stage in SOURCE DESTINATION`, or name another pool",
    ))
}

/// Where the user of a session finds the volume, on every node.
pub(crate) fn path<S: Site>(site: &S, session: &Session) -> PathBuf {
    let root = site.cluster().map(|setting| setting.local_root).unwrap_or_default();
    root.join(&session.script.user)
}

/// A user's name.
///
/// # Errors
/// It is not known on this host.
pub(crate) async fn name_of(uid: u32) -> Result<String, ApiError> {
    let found = tokio::task::spawn_blocking(move || daemon::config::name_of(uid)).await;
    let found = found.map_err(|error| daemon::error::bug("lookup_panicked", error.to_string()))?;
    found.map_err(|reason| {
        site("unknown_user", reason, "have the control service's host know the cluster's users")
    })
}

/// Whether an activation of a session is such a volume.
pub(crate) fn is_one(instance: Option<&Instance>, activation: &Activation) -> bool {
    let own = activation.buffer.is_empty() && activation.access_mode == AccessMode::Private;
    own && instance.is_some_and(Instance::is_private_volumes)
}

/// Makes the volume on one node, or, where it `is_used` by the job already, sees that it is there.
///
/// # Errors
/// The node has no room, another job of the user, or lost the volume.
pub(crate) async fn give<S: Site>(
    app: &App<S>,
    session: &Session,
    instance: &Instance,
    (node, is_used): (&str, bool),
) -> Result<(), ApiError> {
    if is_used {
        return check_there(app, session, node).await;
    }
    let token = session.token.clone();
    let stages = app.database.transact(move |tx| transfers::of_script(tx, &token)).await?;
    let drain = stages.iter().find(|stage| is_drained(stage)).map(|stage| LocalDrain {
        from: drained_folder(stage).to_owned(),
        to: stage.pfs_path.clone(),
        session: session.token.clone(),
        when: instance.drain,
        slurm_job: (session.caller == SLURM).then(|| session.token.clone()),
    });
    let spec = LocalSpec {
        id: session.handle.clone(),
        owner: session.owner.clone(),
        user: session.script.user.clone(),
        capacity_bytes: Some(instance.capacity_bytes),
        drain,
    };
    crate::leftovers::clear(app, node, &spec.id).await?;
    let made = app.site.create_local(node, &spec).await?;
    let told = path(&app.site, session);
    if made.path == told {
        return Ok(());
    }
    let message = format!("the volume is at {}, the job was told {}", made.path.display(), told.display());
    Err(site("local_root_differs", message, "give local_root in control.toml and node.toml one value"))
}

/// The volume that a job works in is not made anew under it: the job would find it empty, and nobody be told.
///
/// # Errors
/// It is not there any more, or the node does not answer.
async fn check_there<S: Site>(app: &App<S>, session: &Session, node: &str) -> Result<(), ApiError> {
    let all = app.site.locals(node).await?;
    if all.iter().any(|volume| volume.id == session.handle && !volume.released) {
        return Ok(());
    }
    let message = format!("node {node} does not have the volume any more that the job was given there");
    let advice = "look at the node's log and its flash: mount what is not mounted, and start the node again. If the \
                  volume is lost, end the job and run it again";
    Err(site("local_lost", message, advice))
}

/// Lets the volume on one node go. One that does not answer is told when it is back: that is replied.
///
/// # Errors
/// The node's.
pub(crate) async fn release<S: Site>(
    app: &App<S>,
    session: &Session,
    node: &str,
    how: Release,
) -> Result<Option<Leftover>, ApiError> {
    let id = session.handle.clone();
    match app.site.release_local(node, &id, how).await {
        Err(error) if absent(&app.site, &error) => {
            tracing::warn!(token = session.token, node, %error, "a private volume is left behind until its node is back");
            let kind = if how == Release::GivenUp { Kind::LocalGivenUp } else { Kind::Local };
            Ok(Some(Leftover { node: node.to_owned(), kind, id }))
        }
        result => result.map(|()| None),
    }
}

/// Discards what nodes still keep of the session.
///
/// # Errors
/// A node's.
pub(crate) async fn give_up<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let nodes = nodes(app, session).await?;
    let released = nodes.iter().map(|node| release(app, session, node, Release::GivenUp));
    let released: Result<Vec<_>, ApiError> = join_all(released).await.into_iter().collect();
    let left: Vec<Leftover> = released?.into_iter().flatten().collect();
    let note =
        move |tx: &rusqlite::Transaction<'_>| left.iter().try_for_each(|left| leftovers::add(tx, left));
    app.database.transact(note).await
}

/// Waits until every node of the job has drained its volume.
///
/// # Errors
/// What one of them cannot drain, or that one does not answer.
pub(crate) async fn drained<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let nodes = nodes(app, session).await?;
    join_all(nodes.iter().map(|node| drained_at(app, session, node))).await.into_iter().collect()
}

async fn drained_at<S: Site>(app: &App<S>, session: &Session, node: &str) -> Result<(), ApiError> {
    let grace = app.site.cluster().map_or(0, |setting| setting.fence_grace_s);
    let mut kept_since = None;
    loop {
        let Some(volume) = find(app, session, node).await? else { return Ok(()) };
        let Some(why) = volume.kept else {
            kept_since = None;
            tokio::time::sleep(POLL).await;
            continue;
        };
        let since = kept_since.get_or_insert_with(Instant::now);
        if since.elapsed() > KEPT_MAX + Duration::from_secs(grace) {
            let message = format!("node {node}: {why}");
            let advice = "mend that; the data is kept on the node, which tries again by itself";
            return Err(site("not_drained", message, advice));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The volume, if its node still has it.
async fn find<S: Site>(app: &App<S>, session: &Session, node: &str) -> Result<Option<LocalStatus>, ApiError> {
    let mut asked = false;
    loop {
        let mut all = app.site.locals(node).await?.into_iter();
        let listed = all.find(|volume| volume.id == session.handle);
        if listed.is_some() || asked {
            return Ok(listed);
        }
        // Nodes list what they have taken up. Told to let the volume go, which it is told already, the node looks for
        // it on its disk: it refuses where it cannot read what is there, and drains what it finds.
        app.site.release_local(node, &session.handle, Release::Drained).await?;
        asked = true;
    }
}

/// The stage that the volume's drain is.
pub(crate) fn is_drained(stage: &Transfer) -> bool {
    let own = stage.buffer.is_empty() && stage.access_mode == AccessMode::Private;
    own && stage.direction == Direction::Out && stage.state != StageState::Complete
}

/// The nodes that have, or had, a volume of the session.
async fn nodes<S: Site>(app: &App<S>, session: &Session) -> Result<Vec<String>, ApiError> {
    let token = session.token.clone();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((instances::find(tx, &token)?, activations::of(tx, &token)?))
    };
    let (instance, all) = app.database.transact(read).await?;
    let volumes = all.into_iter().filter(|activation| is_one(instance.as_ref(), activation));
    Ok(volumes.map(|activation| activation.node).collect())
}

/// The variables that the volume at `path` has besides `DW_JOB_PRIVATE`, without a slash at their end, as on Summit:
/// where it is, and where a drain goes that runs beside the job, so that `forebay drain wait` finds it.
pub(crate) fn variables(path: &Path, instance: &Instance, stages: &[Transfer]) -> Vec<(String, String)> {
    let of = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
    let mut variables = vec![of("BBPATH", path), of("FOREBAY_LOCAL", path)];
    let drained = stages.iter().find(|stage| is_drained(stage)).filter(|_| instance.drain.is_some());
    if let Some(stage) = drained {
        variables.push(of("PERSIST_DIR", &path.join(drained_folder(stage))));
        variables.push(of("PFS_DIR", &stage.pfs_path));
    }
    variables
}

/// The folder of the volume that is drained, below its root.
fn drained_folder(stage: &Transfer) -> &str {
    stage.buffer_path.trim_end_matches('/')
}
