//! From transfers to what a node is told, and which node that is.
//!
//! What their PFS sides are on is noted when they are accepted, as that node sees it, and never again: a later look
//! might find a mount point alone.
//!
//! **Invariant:** the same transfers give the same specification, so that a repeated start is the same start.

use std::path::PathBuf;
use std::time::Duration;

use model::NodeName;
use model::buffer::BufferRef;
use model::phase::{Direction, StageKind, StageState};
use wire::control::{ApiError, Owner, StagePair};
use wire::data::credential::{Capability, User};
use wire::node::{PfsMount, StagePolicy, StageSpec};

use crate::app::{App, no_such_session};
use crate::lifecycle::target::{self, Described};
use crate::lifecycle::{buffers, squash, wrong_phase};
use crate::site::Site;
use crate::state;
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::transfers::{self, Transfer};

/// What one worker copies, and where it runs.
pub(super) struct Order {
    /// The node.
    pub node: NodeName,
    /// What it is told.
    pub spec: StageSpec,
    /// The session that the transfers go with.
    pub session: Session,
}

/// The order for transfers that one worker makes; several are small files of one namespace, direction and owner.
///
/// # Errors
/// The buffer is not there, or its nodes are not; it is not for root.
pub(super) async fn of<S: Site>(
    app: &App<S>,
    transfers: &[Transfer],
    policy: StagePolicy,
) -> Result<Order, ApiError> {
    let first = &transfers[0];
    let (session, described) = buffer_of(app, first).await?;
    squash::check_user(&app.site, &described.instance, first.owner.uid)?;
    let node = node_in(&described.instance).cloned().unwrap_or_default();
    let addresses = target::addresses(app, &described.instance).await?;
    let nodes = target::usable(&app.site, &addresses);
    let shown = first.untouched();
    let pair = |transfer: &Transfer| StagePair {
        buffer: transfer.buffer_path.clone(),
        pfs: transfer.pfs_path.clone(),
        size_hint: transfer.size_hint(),
        ino: transfer.source_ino(),
    };
    let alone = transfers.len() == 1;
    let namespace = target::namespace(&app.site, &described, first.access_mode, &node, nodes);
    let capability = Capability::of_stage(user(first.owner.clone()).await, namespace.namespace);
    let spec = StageSpec {
        id: first.id(&session.handle),
        direction: first.direction,
        kind: if alone { first.kind } else { StageKind::List },
        pfs_path: first.pfs_path.clone(),
        buffer_path: first.buffer_path.clone(),
        buffer_name: first.buffer_name(),
        source: shown.source,
        destination: shown.destination,
        target: target::with_credential(namespace, &described.instance, capability),
        owner: first.owner.clone(),
        policy,
        pairs: if alone { Vec::new() } else { transfers.iter().map(pair).collect() },
        source_ino: if alone { first.source_ino() } else { None },
        pfs_mounts: noted_mounts(app, node_in(&described.instance), transfers).await?,
        ticket: String::new(),
    };
    Ok(Order { node, spec: target::with_ticket(&described.instance, spec), session })
}

/// The user whose rights in the buffer a worker has. Where the groups cannot be looked up, with the main one.
async fn user(owner: Owner) -> User {
    let Owner { uid, gid } = owner;
    let found = tokio::task::spawn_blocking(move || daemon::groups::of(uid, gid)).await;
    let groups = found.map_err(std::io::Error::other).and_then(|groups| groups).unwrap_or_else(|error| {
        tracing::warn!(uid, %error, "cannot look up the groups of a user with id -G: only the main one counts");
        vec![gid]
    });
    User { uid, groups }
}

/// The session that a transfer goes with, and the buffer.
async fn buffer_of<S: Site>(app: &App<S>, transfer: &Transfer) -> Result<(Session, Described), ApiError> {
    let (token, holder) = (transfer.token.clone(), transfer.holder().to_owned());
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let described = match sessions::find(tx, &holder)? {
            Some(session) => buffers::describe(tx, &session)?,
            None => None,
        };
        Ok((sessions::find(tx, &token)?, described))
    };
    let (session, described) = app.database.transact(read).await?;
    let session = session.ok_or_else(|| no_such_session(&transfer.token))?;
    let described = described.ok_or_else(|| match &transfer.buffer {
        BufferRef::Own => wrong_phase(&session, "nothing is allocated", "call setup first"),
        BufferRef::Persistent(name) => buffers::gone(name),
    })?;
    Ok((session, described))
}

/// The node that is to copy a transfer.
///
/// # Errors
/// The buffer is not there.
pub(super) async fn node_of<S: Site>(
    app: &App<S>,
    transfer: &Transfer,
) -> Result<Option<NodeName>, ApiError> {
    let (_, described) = buffer_of(app, transfer).await?;
    Ok(node_in(&described.instance).cloned())
}

/// The node that copies from and to an instance: it has its metadata.
fn node_in(instance: &Instance) -> Option<&NodeName> {
    instance.nodes.first()
}

/// The node that a transfer is, or was, copied by, and that node's name for it. `None`: the buffer is gone.
pub(super) fn place_of(
    tx: &rusqlite::Transaction<'_>,
    transfer: &Transfer,
) -> state::Result<Option<(NodeName, String)>> {
    let session = sessions::find(tx, &transfer.token)?;
    let instance = instances::find(tx, transfer.holder())?;
    Ok(session
        .zip(instance)
        .and_then(|(session, instance)| Some((node_in(&instance)?.to_owned(), transfer.id(&session.handle)))))
}

/// How long the caller who asks for a transfer waits for that. What is not known then is asked for again when it is
/// copied.
const WITHIN: Duration = Duration::from_secs(2);

/// What these paths are on at a node; `None` where that cannot be told now.
pub(super) async fn mounts_of<S: Site>(
    app: &App<S>,
    node: Option<&NodeName>,
    paths: &[PathBuf],
) -> Vec<Option<PfsMount>> {
    let unknown = || vec![None; paths.len()];
    let Some(node) = node.filter(|_| !paths.is_empty()) else { return unknown() };
    match tokio::time::timeout(WITHIN, app.site.pfs_mounts(node, paths)).await {
        Ok(Ok(found)) if found.len() == paths.len() => found,
        Ok(Err(error)) => {
            tracing::warn!(?node, %error, "what is mounted for transfers is not known");
            unknown()
        }
        _ => {
            tracing::warn!(?node, "what is mounted for transfers is not known: the node does not say");
            unknown()
        }
    }
}

/// What the PFS sides of transfers are on, each mount once. What is not known yet is noted now.
///
/// # Errors
/// The database's.
async fn noted_mounts<S: Site>(
    app: &App<S>,
    node: Option<&NodeName>,
    transfers: &[Transfer],
) -> Result<Vec<PfsMount>, ApiError> {
    let (known, unknown): (Vec<&Transfer>, Vec<&Transfer>) =
        transfers.iter().partition(|transfer| transfer.pfs_mount.is_some());
    let paths: Vec<PathBuf> = unknown.iter().map(|transfer| transfer.pfs_path.clone()).collect();
    let found = mounts_of(app, node, &paths).await;
    let noted: Vec<(u64, PfsMount)> =
        unknown.iter().zip(found).filter_map(|(transfer, found)| Some((transfer.number, found?))).collect();
    let mut mounts: Vec<PfsMount> = known.iter().filter_map(|transfer| transfer.pfs_mount.clone()).collect();
    mounts.extend(noted.iter().map(|(_, mount)| mount.clone()));
    if !noted.is_empty() {
        let note = move |tx: &rusqlite::Transaction<'_>| {
            noted.iter().try_for_each(|(number, mount)| transfers::note_mount(tx, *number, mount))
        };
        app.database.transact(note).await?;
    }
    mounts.sort_by(|a, b| (&a.mountpoint, &a.kind, &a.path).cmp(&(&b.mountpoint, &b.kind, &b.path)));
    mounts.dedup_by(|a, b| (&a.mountpoint, &a.kind) == (&b.mountpoint, &b.kind));
    Ok(mounts)
}

/// Notes what the PFS side is on of what a job stages out at its end, which is long after this. What cannot be noted
/// now is when it is copied.
pub(super) async fn note_mounts<S: Site>(app: &App<S>, stages: &[Transfer]) {
    let ahead = |stage: &&Transfer| {
        stage.direction == Direction::Out && stage.state != StageState::Complete && stage.pfs_mount.is_none()
    };
    for stage in stages.iter().filter(ahead) {
        let node = node_of(app, stage).await;
        let noted = match node {
            Ok(node) => noted_mounts(app, node.as_ref(), std::slice::from_ref(stage)).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = noted {
            tracing::warn!(source = stage.source(), %error, "cannot note what is mounted for a stage");
        }
    }
}
