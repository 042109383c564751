//! `pre_run`: mount every namespace that the session uses on every node of the job, all at once.
//!
//! A buffer that is used by hand may be unmounted and mounted again, as long as nothing was staged out.

use std::path::PathBuf;

use daemon::error::user;
use model::buffer::BufferRef;
use model::phase::{AccessMode, Direction, Phase, StageState};
use model::{NodeName, Token};
use wire::control::{ApiError, ErrorCode, NodeRole, PreRun};

use super::beside::{Standing, standing};
use super::buffers::{self, Buffer};
use super::mounting::{COMPUTE_NODE, Mounting};
use super::mounts::{Which, unmount_of};
use super::{Done, join_all, require_set_up, wrong_phase};
use crate::app::App;
use crate::node_api::Unmount;
use crate::pool;
use crate::site::Site;
use crate::state::activations::{self, Activation};
use crate::state::sessions::{self, Session};
use crate::state::transfers::{self, Transfer};
use crate::transfers::while_running;

/// One mount that the job needs.
#[derive(Clone, Debug)]
struct Place {
    buffer: BufferRef,
    mode: AccessMode,
    node: NodeName,
    mountpoint: PathBuf,
}

impl Place {
    fn is(&self, activation: &Activation) -> bool {
        (&self.buffer, self.mode, &self.node, &self.mountpoint)
            == (&activation.buffer, activation.access_mode, &activation.node, &activation.mountpoint)
    }

    /// Whether it is of the same namespace on the same node.
    fn is_beside(&self, activation: &Activation) -> bool {
        (&self.buffer, self.mode, &self.node)
            == (&activation.buffer, activation.access_mode, &activation.node)
    }

    /// As it is asked for now, and whether the job has it already: it was made before the job began.
    fn activation(&self, standing: Standing, old: Option<&Activation>, phase: Phase) -> (Activation, bool) {
        let activation = Activation {
            buffer: self.buffer.clone(),
            access_mode: self.mode,
            node: self.node.clone(),
            ordinal: standing.ordinal,
            shared: standing.shared,
            mountpoint: self.mountpoint.clone(),
            mounted: true,
            interruptions: old.map_or(0, |old| old.interruptions),
        };
        (activation, phase == Phase::Mounted && old.is_some_and(|old| old.mounted))
    }
}

/// A compute node of the job and where it mounts.
struct Host {
    name: NodeName,
    mount_root: PathBuf,
}

/// Mounts.
///
/// # Errors
/// A `stage_in` is missing, the mount point is no folder, or a node cannot mount; then nothing stays mounted.
pub(crate) async fn run<S: Site>(app: &App<S>, token: &Token, request: PreRun) -> Result<Done, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((transfers::of_script(tx, &name)?, activations::of(tx, &name)?))
    };
    let (stages, known) = app.database.transact(read).await?;
    check_ready(&session, &stages)?;
    let hosts = hosts(app, &request)?;
    let mut used = buffers::of(app, &session).await?;
    let wanted = places(app, &session, &used, &hosts, &request)?;
    let wanted = standings(wanted, &known, request.shared)?;
    let done = |(place, _): &(Place, Standing)| known.iter().any(|old| old.mounted && place.is(old));
    let again = session.phase == Phase::Mounted && wanted.iter().all(done);
    prepare(app, &session, &mut used, &names(&hosts)).await?;
    let mounts = wanted.iter().filter_map(|(place, standing)| {
        let buffer = used.iter().find(|buffer| buffer.which == place.buffer)?;
        let old = known.iter().find(|old| place.is(old));
        let (activation, is_used) = place.activation(*standing, old, session.phase);
        let one_host = hosts.len() == 1;
        Some(mount(app, Mounting { session: &session, buffer, activation, is_used, one_host }))
    });
    // Every one is waited for, also when one fails: what comes after must find them all settled.
    let results: Result<(), ApiError> = join_all(mounts).await.into_iter().collect();
    if let Err(error) = results {
        if !wanted.iter().all(done) {
            give_up(app, &session, &wanted).await;
        }
        return Err(error);
    }
    if again {
        return Ok(Done::Already);
    }
    let name = token.to_owned();
    while_running::start(app, &session, &used, &stages).await;
    app.database.transact(move |tx| sessions::set_phase(tx, &name, Phase::Mounted)).await?;
    Ok(Done::Now)
}

/// Makes what waited for the nodes of the job, and sees that all is served before any of it is mounted.
async fn prepare<S: Site>(
    app: &App<S>,
    session: &Session,
    used: &mut [Buffer],
    names: &[NodeName],
) -> Result<(), ApiError> {
    for buffer in &mut *used {
        pool::kind(buffer.described.instance.kind).prepare(app, session, buffer, names).await?;
    }
    for buffer in used {
        pool::kind(buffer.described.instance.kind).check_served(app, buffer).await?;
    }
    Ok(())
}

/// The places, and how each stands to what is mounted already.
fn standings(
    places: Vec<Place>,
    known: &[Activation],
    shared: bool,
) -> Result<Vec<(Place, Standing)>, ApiError> {
    let with_standing = |place: Place| {
        let beside: Vec<&Activation> = known.iter().filter(|old| place.is_beside(old)).collect();
        let standing = standing(&place.mountpoint, &beside, shared)?;
        Ok((place, standing))
    };
    places.into_iter().map(with_standing).collect()
}

/// The reason that mounting failed matters more than what cannot be taken away; that is still noted as mounted. What a
/// session that is used by hand has mounted elsewhere stays.
async fn give_up<S: Site>(app: &App<S>, session: &Session, wanted: &[(Place, Standing)]) {
    let which = match wanted {
        [(place, _)] if session.phase == Phase::Mounted => Which::At(&place.mountpoint),
        _ => Which::All,
    };
    if let Err(error) = unmount_of(app, session, which, Unmount::AtOnce).await {
        tracing::warn!(token = ?session.token, %error, "cannot remove yet a mount of a job that does not start");
    }
}

fn check_ready(session: &Session, stages: &[Transfer]) -> Result<(), ApiError> {
    if session.phase >= Phase::StagedOut {
        return Err(wrong_phase(session, "it is staged out already", "start a new session"));
    }
    let missing =
        stages.iter().find(|stage| stage.direction == Direction::In && stage.state != StageState::Complete);
    match missing {
        Some(stage) => {
            let message = format!("the stage_in of {} is not complete", stage.source());
            Err(wrong_phase(session, &message, "call data_in first"))
        }
        None => Ok(()),
    }
}

/// The nodes of the job.
fn hosts<S: Site>(app: &App<S>, request: &PreRun) -> Result<Vec<Host>, ApiError> {
    if app.site.cluster().is_none() {
        return Ok(vec![Host { name: NodeName::literal(COMPUTE_NODE), mount_root: app.site.mount_folder() }]);
    }
    if request.hosts.is_empty() {
        return Err(user(
            ErrorCode::NoHosts,
            "pre_run does not say which nodes the job has",
            "name its hosts",
        ));
    }
    let views = app.site.nodes();
    let host = |name: &NodeName| {
        let view = views.iter().find(|view| view.name == *name && view.has(NodeRole::Compute));
        let registration = view.and_then(|view| view.registration.as_ref()).ok_or_else(|| {
            let message = format!("{name} has no Forebay compute node, which mounts buffers there");
            daemon::error::site(
                ErrorCode::NoSuchNode,
                message,
                "start forebay-node there, with that name in its file",
            )
        })?;
        Ok(Host { name: name.clone(), mount_root: registration.mount_root.clone() })
    };
    request.hosts.iter().map(host).collect()
}

fn names(hosts: &[Host]) -> Vec<NodeName> {
    hosts.iter().map(|host| host.name.clone()).collect()
}

/// Each namespace on each node, and where it goes.
fn places<S: Site>(
    app: &App<S>,
    session: &Session,
    used: &[Buffer],
    hosts: &[Host],
    request: &PreRun,
) -> Result<Vec<Place>, ApiError> {
    let namespaces = used
        .iter()
        .flat_map(|buffer| buffer.described.instance.access_modes.iter().map(move |mode| (buffer, *mode)));
    let namespaces: Vec<(&Buffer, AccessMode)> = namespaces.collect();
    let Some(chosen) = &request.mountpoint else {
        let places = hosts.iter().flat_map(|host| {
            namespaces.iter().map(|(buffer, mode)| {
                let kind = pool::kind::<S>(buffer.described.instance.kind);
                let of = (&buffer.which, *mode);
                Place {
                    buffer: buffer.which.clone(),
                    mode: *mode,
                    node: host.name.clone(),
                    mountpoint: kind.mountpoint(&app.site, session, &host.mount_root, of),
                }
            })
        });
        return Ok(places.collect());
    };
    match (namespaces.as_slice(), hosts) {
        ([(buffer, mode)], [host]) => Ok(vec![Place {
            buffer: buffer.which.clone(),
            mode: *mode,
            node: host.name.clone(),
            mountpoint: app.site.check_mountpoint(chosen)?,
        }]),
        (namespaces, _) => {
            let message = format!("{} namespaces cannot be mounted at one place", namespaces.len());
            Err(user(ErrorCode::OneMountpoint, message, "leave the mount point out"))
        }
    }
}

/// Notes the activation, then asks for it: also a mount whose reply is lost is then known and can be taken away.
async fn mount<S: Site>(app: &App<S>, wanted: Mounting<'_>) -> Result<(), ApiError> {
    let (name, noted) = (wanted.session.token.clone(), wanted.activation.clone());
    let note = move |tx: &rusqlite::Transaction<'_>| {
        activations::remove_ended(tx, &name, &noted)?;
        activations::set(tx, &name, &noted)
    };
    app.database.transact(note).await?;
    pool::kind(wanted.buffer.described.instance.kind).mount(app, wanted).await
}
