//! `pre_run`: mount every namespace of the instance on the job's node.
//!
//! A buffer that is used by hand may be unmounted and mounted again, as long as nothing was staged out.

use std::path::PathBuf;

use daemon::error::user;
use model::phase::{AccessMode, Direction, Phase, StageState};
use wire::control::{ApiError, PreRun};
use wire::node::{MountSpec, StorageAddress};

use super::mounts::{COMPUTE_NODE, default_mountpoint, mount_id, unmount_all};
use super::{Done, require_instance, target, wrong_phase};
use crate::control::Control;
use crate::site::Site;
use crate::state::activations::{self, Activation};
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::stages::{self, Stage};

/// Mounts.
///
/// # Errors
/// A `stage_in` is missing, the mount point is no folder, or the node cannot mount; then nothing stays mounted.
pub async fn run<S: Site>(control: &Control<S>, token: &str, request: PreRun) -> Result<Done, ApiError> {
    let session = control.session(token).await?;
    require_instance(&session)?;
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((instances::find(tx, &name)?, stages::of(tx, &name)?, activations::of(tx, &name)?))
    };
    let (instance, stages, known) = control.database.transact(read).await?;
    let instance =
        instance.ok_or_else(|| wrong_phase(&session, "nothing is allocated", "call setup first"))?;
    check_ready(&session, &stages)?;
    let wanted = places(control, &instance, token, &request)?;
    let again = session.phase == Phase::Mounted && all_mounted(&wanted, &known);
    let nodes = target::addresses(control, &instance).await?;
    let fresh =
        |place: &(AccessMode, PathBuf)| !known.iter().any(|old| old.mounted && same_place(old, place));
    for place in &wanted {
        let interruptions =
            known.iter().find(|old| same_place(old, place)).map_or(0, |old| old.interruptions);
        let mounted = mount(control, token, &instance, place, interruptions, nodes.clone()).await;
        if let Err(error) = mounted {
            if wanted.iter().any(fresh) {
                unmount_all(control, token, true).await?;
            }
            return Err(error);
        }
    }
    if again {
        return Ok(Done::Already);
    }
    let name = token.to_owned();
    control.database.transact(move |tx| sessions::set_phase(tx, &name, Phase::Mounted)).await?;
    Ok(Done::Now)
}

fn check_ready(session: &Session, stages: &[Stage]) -> Result<(), ApiError> {
    if session.phase >= Phase::StagedOut {
        return Err(wrong_phase(session, "it is staged out already", "start a new session"));
    }
    let missing =
        stages.iter().find(|stage| stage.direction == Direction::In && stage.state != StageState::Complete);
    match missing {
        Some(stage) => {
            let message = format!("the stage_in of {} is not complete", stage.source);
            Err(wrong_phase(session, &message, "call data_in first"))
        }
        None => Ok(()),
    }
}

/// Each mode and where it goes.
fn places<S: Site>(
    control: &Control<S>,
    instance: &Instance,
    token: &str,
    request: &PreRun,
) -> Result<Vec<(AccessMode, PathBuf)>, ApiError> {
    let Some(chosen) = &request.mountpoint else {
        let place = |mode: &AccessMode| (*mode, default_mountpoint(control, token, *mode));
        return Ok(instance.access_modes.iter().map(place).collect());
    };
    match instance.access_modes.as_slice() {
        [mode] => Ok(vec![(*mode, control.site.check_mountpoint(chosen)?)]),
        modes => {
            let message = format!("{} access modes cannot be mounted at one place", modes.len());
            Err(user("one_mountpoint", message, "leave the mount point out"))
        }
    }
}

fn same_place(activation: &Activation, place: &(AccessMode, PathBuf)) -> bool {
    activation.access_mode == place.0 && activation.mountpoint == place.1
}

fn all_mounted(wanted: &[(AccessMode, PathBuf)], known: &[Activation]) -> bool {
    wanted.iter().all(|place| known.iter().any(|old| old.mounted && same_place(old, place)))
}

/// Notes the activation, then asks for it: also a mount whose reply is lost is then known and can be taken away.
async fn mount<S: Site>(
    control: &Control<S>,
    token: &str,
    instance: &Instance,
    (mode, mountpoint): &(AccessMode, PathBuf),
    interruptions: u32,
    nodes: Vec<StorageAddress>,
) -> Result<(), ApiError> {
    let activation = Activation {
        access_mode: *mode,
        node: COMPUTE_NODE.to_owned(),
        mountpoint: mountpoint.clone(),
        mounted: true,
        interruptions,
    };
    let (name, noted) = (token.to_owned(), activation.clone());
    control.database.transact(move |tx| activations::set(tx, &name, &noted)).await?;
    let spec = MountSpec {
        id: mount_id(token, *mode),
        mountpoint: mountpoint.clone(),
        target: target::namespace(instance, *mode, nodes),
        // One machine, one mount of each namespace.
        exclusive: true,
    };
    let status = control.site.mount(COMPUTE_NODE, &spec).await?;
    let (name, noted) = (token.to_owned(), Activation { interruptions: status.interruptions, ..activation });
    control.database.transact(move |tx| activations::set(tx, &name, &noted)).await
}
