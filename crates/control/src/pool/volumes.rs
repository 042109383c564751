//! Private buffers of a pool of kind node-local: on each node of the job a volume on its own flash, at
//! `LOCAL_ROOT/USER`.
//!
//! The volume is made at `pre_run`, when the nodes are known, and let go at `post_run`. From then on it is its node's:
//! it drains what is owed and discards the volume, whatever becomes of control. `data_out` waits for that and says how
//! it went.

mod drained;
mod script;

use std::future::ready;
use std::path::{Path, PathBuf};

use daemon::error::site;
use model::NodeName;
use model::buffer::BufferRef;
use model::phase::AccessMode;
use wire::control::{ApiError, ErrorCode, PoolStatus, SLURM};
use wire::node::{LocalDrain, LocalSpec};

use drained::{drained_folder, is_drained, nodes};

use super::job_nodes;
use super::kind::{Kind, Step};
use super::room::{Ground, Placement, Share, Wish};
use crate::app::App;
use crate::leftovers;
use crate::lifecycle::buffers::Buffer;
use crate::lifecycle::mounting::{Gone, Mounting, on_node};
use crate::lifecycle::target::Described;
use crate::lifecycle::{absent, join_all};
use crate::node_api::{Release, Unmount};
use crate::script::Plan;
use crate::site::{PoolKind, PoolSetting, Site};
use crate::state::activations::Activation;
use crate::state::instances::Instance;
use crate::state::leftovers::{Kind as Left, Leftover};
use crate::state::sessions::Session;
use crate::state::transfers::Transfer;
use crate::state::{self, transfers};

/// A volume on each of the job's own nodes.
pub(super) struct PrivateVolumes;

impl<S: Site> Kind<S> for PrivateVolumes {
    fn status(&self, ground: &Ground, pool: &PoolSetting, shares: &[Share]) -> PoolStatus {
        job_nodes::status(pool, &ground.views, shares)
    }

    /// Every node of the job is to give so much.
    fn check(
        &self,
        ground: &Ground,
        pool: &PoolSetting,
        bytes: u64,
        _wish: &Wish<'_>,
        _shares: &[Share],
    ) -> Result<(), ApiError> {
        job_nodes::check(pool, &ground.views, bytes)
    }

    fn place(
        &self,
        _ground: &Ground,
        pool: &PoolSetting,
        bytes: u64,
        _wish: &Wish<'_>,
        _shares: &[Share],
    ) -> Result<Placement, ApiError> {
        Ok(job_nodes::place(pool, PoolKind::NodeLocal, bytes))
    }

    fn check_script(&self, plan: &Plan) -> Result<(), ApiError> {
        script::check(plan)
    }

    fn check_mirror(&self) -> Result<(), ApiError> {
        Err(job_nodes::no_mirror())
    }

    fn check_persistent(&self, pool: &PoolSetting) -> Result<(), ApiError> {
        Err(job_nodes::not_persistent(pool))
    }

    /// The volume is found by its user's name, and Slurm knows numbers only.
    fn complete<'a>(&'a self, session: &'a mut Session) -> Step<'a> {
        Box::pin(async move {
            if session.script.user.is_empty() {
                session.script.user = name_of(session.owner.uid).await?;
            }
            Ok(())
        })
    }

    fn allocate<'a>(&'a self, _app: &'a App<S>, _of: &'a Described) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    fn check_served<'a>(&'a self, _app: &'a App<S>, _buffer: &'a Buffer) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    fn mountpoint(
        &self,
        site: &S,
        session: &Session,
        _root: &Path,
        _of: (&BufferRef, AccessMode),
    ) -> PathBuf {
        path(site, session)
    }

    fn mount<'a>(&'a self, app: &'a App<S>, wanted: Mounting<'a>) -> Step<'a> {
        Box::pin(async move {
            let node = wanted.activation.node.clone();
            give(app, wanted).await.map_err(|error| on_node(&node, error))
        })
    }

    fn release<'a>(
        &'a self,
        app: &'a App<S>,
        session: &'a Session,
        activation: &'a Activation,
        _how: Unmount,
    ) -> Step<'a, Gone> {
        Box::pin(async move {
            let left = release(app, session, &activation.node, Release::Drained).await?;
            Ok(Gone { interruptions: activation.interruptions, left })
        })
    }

    fn variables(&self, path: &Path, instance: &Instance, stages: &[Transfer]) -> Vec<(String, String)> {
        variables(path, instance, stages)
    }

    fn drains_itself(&self) -> bool {
        true
    }

    fn drained<'a>(&'a self, app: &'a App<S>, session: &'a Session) -> Step<'a> {
        Box::pin(drained::wait(app, session))
    }

    fn discard<'a>(
        &'a self,
        app: &'a App<S>,
        session: &'a Session,
        _instance: &'a Instance,
        hurry: bool,
    ) -> Step<'a> {
        match hurry {
            true => Box::pin(give_up(app, session)),
            false => Box::pin(ready(Ok(()))),
        }
    }
}

/// Where the user of a session finds the volume, on every node.
fn path<S: Site>(site: &S, session: &Session) -> PathBuf {
    let root = site.cluster().map(|setting| setting.local_root).unwrap_or_default();
    root.join(&session.script.user)
}

/// A user's name.
///
/// # Errors
/// It is not known on this host.
async fn name_of(uid: u32) -> Result<String, ApiError> {
    let found = tokio::task::spawn_blocking(move || daemon::config::name_of(uid)).await;
    let found = found.map_err(|error| daemon::error::bug(ErrorCode::LookupPanicked, error.to_string()))?;
    found.map_err(|reason| {
        site(ErrorCode::UnknownUser, reason, "set up the cluster's users on the control service's host")
    })
}

/// Makes the volume on one node, or, where it `is_used` by the job already, sees that it is there.
///
/// # Errors
/// The node has no room, another job of the user, or lost the volume.
async fn give<S: Site>(app: &App<S>, wanted: Mounting<'_>) -> Result<(), ApiError> {
    let (session, instance, node) =
        (wanted.session, &wanted.buffer.described.instance, &wanted.activation.node);
    if wanted.is_used {
        return check_there(app, session, node).await;
    }
    let token = session.token.clone();
    let stages = app.database.transact(move |tx| transfers::of_script(tx, &token)).await?;
    let drain = stages.iter().find(|stage| is_drained(stage)).map(|stage| LocalDrain {
        from: drained_folder(stage).to_owned(),
        to: stage.pfs_path.clone(),
        session: session.token.clone(),
        when: instance.behaviour.drain,
        slurm_job: (session.caller == SLURM).then(|| session.token.clone()),
    });
    let spec = LocalSpec {
        id: session.handle.clone(),
        owner: session.owner.clone(),
        user: session.script.user.clone(),
        capacity_bytes: Some(instance.capacity_bytes),
        drain,
    };
    leftovers::clear(app, node, &spec.id).await?;
    let made = app.site.create_local(node, &spec).await?;
    let told = path(&app.site, session);
    if made.path == told {
        return Ok(());
    }
    let message = format!("the volume is at {}, the job was told {}", made.path.display(), told.display());
    Err(site(ErrorCode::LocalRootDiffers, message, "give local_root in control.toml and node.toml one value"))
}

/// The volume that a job works in is not made anew under it: the job would find it empty, and nobody be told.
///
/// # Errors
/// It is not there any more, or the node does not answer.
async fn check_there<S: Site>(app: &App<S>, session: &Session, node: &NodeName) -> Result<(), ApiError> {
    let all = app.site.locals(node).await?;
    if all.iter().any(|volume| volume.id == session.handle && !volume.released) {
        return Ok(());
    }
    let message = format!("node {node} no longer has the volume that the job was given there");
    let advice = "look at the node's log and its flash: mount what is not mounted, and start the node again. If the \
                  volume is lost, end the job and run it again";
    Err(site(ErrorCode::LocalLost, message, advice))
}

/// Lets the volume on one node go. One that does not answer is told when it is back: that is replied.
///
/// # Errors
/// The node's.
async fn release<S: Site>(
    app: &App<S>,
    session: &Session,
    node: &NodeName,
    how: Release,
) -> Result<Option<Leftover>, ApiError> {
    let id = session.handle.clone();
    match app.site.release_local(node, &id, how).await {
        Err(error) if absent(&app.site, &error) => {
            tracing::warn!(token = ?session.token, ?node, %error, "a volume is left behind until its node is back");
            let kind = if how == Release::GivenUp { Left::LocalGivenUp } else { Left::Local };
            Ok(Some(Leftover { node: node.to_owned(), kind, id }))
        }
        result => result.map(|()| None),
    }
}

/// Discards what nodes still keep of the session.
///
/// # Errors
/// A node's.
async fn give_up<S: Site>(app: &App<S>, session: &Session) -> Result<(), ApiError> {
    let nodes = nodes(app, session).await?;
    let released = nodes.iter().map(|node| release(app, session, node, Release::GivenUp));
    let released: Result<Vec<_>, ApiError> = join_all(released).await.into_iter().collect();
    let left: Vec<Leftover> = released?.into_iter().flatten().collect();
    let note = move |tx: &rusqlite::Transaction<'_>| {
        left.iter().try_for_each(|left| state::leftovers::add(tx, left))
    };
    app.database.transact(note).await
}

/// The variables that the volume at `path` has besides `DW_JOB_PRIVATE`, without a slash at their end, as on Summit:
/// where it is, and where a drain goes that runs beside the job, so that `forebay drain wait` finds it.
fn variables(path: &Path, instance: &Instance, stages: &[Transfer]) -> Vec<(String, String)> {
    let of = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
    let mut variables = vec![of("BBPATH", path), of("FOREBAY_LOCAL", path)];
    let drained =
        stages.iter().find(|stage| is_drained(stage)).filter(|_| instance.behaviour.drain.is_some());
    if let Some(stage) = drained {
        variables.push(of("PERSIST_DIR", &path.join(drained_folder(stage))));
        variables.push(of("PFS_DIR", &stage.pfs_path));
    }
    variables
}
