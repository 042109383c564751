//! Striped buffers of a pool of kind node-local: the job's own nodes are its storage nodes. They are known at
//! `pre_run`, so that is when the fragments are made; what is set up before has a size and no place.

use daemon::error::{site, user};
use model::size::display;
use wire::control::{ApiError, Blame, VolumeKind};

use super::buffers::Buffer;
use super::{absent, fragments};
use crate::app::App;
use crate::pool;
use crate::site::Site;
use crate::state::instances::{self, Instance};
use crate::state::sessions::Session;

/// Makes the fragments of such buffers on `hosts`; a repeated call makes the same.
///
/// # Errors
/// A node has no room or does not make its fragment; then none is left. Or the job has come to other nodes than before.
pub(crate) async fn over<S: Site>(
    app: &App<S>,
    session: &Session,
    used: &mut [Buffer],
    hosts: &[String],
) -> Result<(), ApiError> {
    for buffer in used.iter_mut().filter(|buffer| buffer.name.is_empty()) {
        if buffer.described.instance.is_spread() {
            place(app, session, buffer, hosts).await?;
        }
    }
    Ok(())
}

async fn place<S: Site>(
    app: &App<S>,
    session: &Session,
    buffer: &mut Buffer,
    hosts: &[String],
) -> Result<(), ApiError> {
    let instance = &mut buffer.described.instance;
    if !instance.nodes.is_empty() {
        same(instance, hosts)?;
        // An earlier call may have broken off, or a node have lost its part since.
        return fragments::make(app, &buffer.described).await;
    }
    let (fragment_bytes, capacity_bytes) =
        pool::equal_parts(instance.requested_bytes, instance.granularity_bytes, hosts.len() as u64)?;
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

fn same(instance: &Instance, hosts: &[String]) -> Result<(), ApiError> {
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    if sorted(&instance.nodes) == sorted(hosts) {
        return Ok(());
    }
    let message =
        format!("the buffer lies on {}, and the job has other nodes now", instance.nodes.join(", "));
    Err(user("other_nodes", message, "tear the session down and set it up again"))
}

/// The node itself knows nothing of what else its flash is for.
fn check_room<S: Site>(app: &App<S>, hosts: &[String], bytes: u64) -> Result<(), ApiError> {
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
            return Err(site("no_room", message, "ask for less, or see `forebay local list` on that node"));
        }
    }
    Ok(())
}
