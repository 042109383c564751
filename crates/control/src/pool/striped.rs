//! Striped buffers of a pool of kind node-local: the job's own nodes are its storage nodes. They are known at
//! `pre_run`, so that is when the fragments are made; what is set up before has a size and no place.

use std::future::ready;

use daemon::error::{site, user};
use model::NodeName;
use model::phase::{AccessMode, Direction};
use model::size::display;
use wire::control::{ApiError, Blame, ErrorCode, PoolStatus, VolumeKind};

use super::job_nodes;
use super::kind::{Kind, Step};
use super::room::{Ground, Placement, Share, Wish, equal_parts};
use crate::app::App;
use crate::lifecycle::buffers::Buffer;
use crate::lifecycle::target::Described;
use crate::lifecycle::{absent, fragments};
use crate::script::Plan;
use crate::site::{PoolKind, PoolSetting, Site};
use crate::state::instances::{self, Instance};
use crate::state::sessions::Session;

/// The job's own nodes as storage nodes.
pub(super) struct StripedOverJob;

impl<S: Site> Kind<S> for StripedOverJob {
    fn status(&self, ground: &Ground, pool: &PoolSetting, shares: &[Share]) -> PoolStatus {
        job_nodes::status(pool, &ground.views, shares)
    }

    fn place(
        &self,
        _ground: &Ground,
        pool: &PoolSetting,
        bytes: u64,
        _wish: &Wish<'_>,
        _shares: &[Share],
    ) -> Result<Placement, ApiError> {
        Ok(job_nodes::place(pool, PoolKind::NodeLocalStriped, bytes))
    }

    fn check_script(&self, plan: &Plan) -> Result<(), ApiError> {
        check_script(plan)
    }

    fn check_mirror(&self) -> Result<(), ApiError> {
        Err(job_nodes::no_mirror())
    }

    fn check_persistent(&self, pool: &PoolSetting) -> Result<(), ApiError> {
        Err(job_nodes::not_persistent(pool))
    }

    fn allocate<'a>(&'a self, _app: &'a App<S>, _of: &'a Described) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Makes the fragments on `hosts`; a repeated call makes the same. Where a node has no room or does not make its
    /// fragment none is left. Fails where the job has come to other nodes than before.
    fn prepare<'a>(
        &'a self,
        app: &'a App<S>,
        session: &'a Session,
        buffer: &'a mut Buffer,
        hosts: &'a [NodeName],
    ) -> Step<'a> {
        Box::pin(place(app, session, buffer, hosts))
    }
}

/// What such a buffer cannot do.
fn check_script(plan: &Plan) -> Result<(), ApiError> {
    let Some(own) = plan.own.as_ref().filter(|own| own.access_modes != [AccessMode::Striped]) else {
        return check_stages(plan);
    };
    let pool = own.pool.as_deref().unwrap_or_default();
    let message = format!("pool {pool} gives striped buffers or private volumes, not both to one job");
    Err(user(ErrorCode::NotBuilt, message, "write access_mode=private or access_mode=striped"))
}

fn check_stages(plan: &Plan) -> Result<(), ApiError> {
    let ins = plan.stages.iter().find(|stage| stage.buffer.is_own() && stage.direction == Direction::In);
    let Some(stage) = ins else { return Ok(()) };
    let message = format!("{}: nothing is staged in before the nodes of the job are known", stage.source());
    Err(user(
        ErrorCode::EarlyStage,
        message,
        "stage in within the job, with `forebay stage in SOURCE DESTINATION`, or name another pool",
    ))
}

async fn place<S: Site>(
    app: &App<S>,
    session: &Session,
    buffer: &mut Buffer,
    hosts: &[NodeName],
) -> Result<(), ApiError> {
    let instance = &mut buffer.described.instance;
    if !instance.nodes.is_empty() {
        same(instance, hosts)?;
        // An earlier call may have broken off, or a node have lost its part since.
        return fragments::make(app, &buffer.described).await;
    }
    let (fragment_bytes, capacity_bytes) =
        equal_parts(instance.requested_bytes, instance.granularity_bytes, hosts.len() as u64)?;
    check_room(app, hosts, fragment_bytes)?;
    *instance = Instance { capacity_bytes, nodes: hosts.to_vec(), ..instance.clone() };
    let mut made = Ok(());
    for volume in volumes(app, fragment_bytes) {
        buffer.described.instance.volume = *volume;
        note(app, session, &buffer.described.instance).await?;
        made = fragments::make(app, &buffer.described).await;
        let Err(error) = &made else { return Ok(()) };
        fragments::destroy(app, &buffer.described.instance).await?;
        if error.blame != Blame::Site || absent(&app.site, error) {
            break;
        }
    }
    buffer.described.instance.nodes.clear();
    note(app, session, &buffer.described.instance).await?;
    made
}

async fn note<S: Site>(app: &App<S>, session: &Session, instance: &Instance) -> Result<(), ApiError> {
    let (token, noted) = (session.token.clone(), instance.clone());
    app.database.transact(move |tx| instances::place(tx, &token, &noted)).await
}

/// An image, and where a host cannot have one, a directory.
fn volumes<S: Site>(app: &App<S>, fragment_bytes: u64) -> &'static [VolumeKind] {
    match app.site.image_bytes_min() {
        Some(least) if fragment_bytes >= least => &[VolumeKind::Image, VolumeKind::Directory],
        _ => &[VolumeKind::Directory],
    }
}

fn same(instance: &Instance, hosts: &[NodeName]) -> Result<(), ApiError> {
    let sorted = |names: &[NodeName]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    if sorted(&instance.nodes) == sorted(hosts) {
        return Ok(());
    }
    let message =
        format!("the buffer lies on {}, and the job has other nodes now", instance.nodes.join(", "));
    Err(user(ErrorCode::OtherNodes, message, "tear the session down and set it up again"))
}

/// The node itself knows nothing of what else its flash is for.
fn check_room<S: Site>(app: &App<S>, hosts: &[NodeName], bytes: u64) -> Result<(), ApiError> {
    let views = app.site.nodes();
    for name in hosts {
        let health = views.iter().find(|view| view.name == *name).and_then(|view| view.health.as_ref());
        let free = health.and_then(|health| health.local).map_or(0, |space| space.free_bytes);
        if free < bytes {
            let message = format!(
                "node {name} has {} of flash free, the buffer takes {}",
                display(free),
                display(bytes)
            );
            return Err(site(
                ErrorCode::NoRoom,
                message,
                "ask for less, or see `forebay local list` on that node",
            ));
        }
    }
    Ok(())
}
