//! One mount of a namespace on one node: where it is, how it is made, and how it is taken away.

use std::path::{Path, PathBuf};

use model::buffer::BufferRef;
use model::phase::AccessMode;
use model::{NodeName, Token};
use wire::control::ApiError;
use wire::node::{MountSpec, StorageAddress};

use super::buffers::Buffer;
use super::{absent, encrypted, squash, target};
use crate::app::App;
use crate::leftovers;
use crate::node_api::Unmount;
use crate::site::Site;
use crate::state::activations::{self, Activation};
use crate::state::leftovers::{Kind, Leftover};
use crate::state::sessions::Session;
use crate::state::{instances, transfers};

/// The compute node of jobs on one machine.
pub(crate) const COMPUTE_NODE: &str = "n0";

/// A mode's word in paths and ids.
pub(crate) fn word(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Striped => "striped",
        AccessMode::Private => "private",
    }
}

/// A namespace's folder below the token's: `striped`, `private`, and for the persistent buffer x `persistent-x` and
/// `persistent-x-private`.
pub(crate) fn place(buffer: &BufferRef, mode: AccessMode) -> String {
    match (buffer, mode) {
        (BufferRef::Own, mode) => word(mode).to_owned(),
        (BufferRef::Persistent(name), AccessMode::Striped) => format!("persistent-{name}"),
        (BufferRef::Persistent(name), AccessMode::Private) => format!("persistent-{name}-private"),
    }
}

/// The node's name for a session's mount.
pub(crate) fn mount_id(handle: &str, activation: &Activation) -> String {
    let place = place(&activation.buffer, activation.access_mode);
    match activation.ordinal {
        0 => format!("{handle}-{place}"),
        ordinal => format!("{handle}-{place}-at-{ordinal}"),
    }
}

/// Where a namespace is mounted below `root` unless the caller names a place.
pub(crate) fn default_mountpoint(
    root: &Path,
    token: &Token,
    buffer: &BufferRef,
    mode: AccessMode,
) -> PathBuf {
    root.join(token).join(place(buffer, mode))
}

/// Tells the mounts of a session's own namespace that stages change names in it. One that does not have it for itself
/// knows.
///
/// # Errors
/// A node's.
pub(crate) async fn share<S: Site>(
    app: &App<S>,
    session: &Session,
    mode: AccessMode,
) -> Result<(), ApiError> {
    let name = session.token.clone();
    let all = app.database.transact(move |tx| activations::of(tx, &name)).await?;
    let own =
        all.into_iter().filter(|mount| mount.mounted && mount.buffer.is_own() && mount.access_mode == mode);
    for mount in own {
        let id = mount_id(&session.handle, &mount);
        match app.site.share_mount(&mount.node, &id).await {
            // Whoever is cut off is told nothing; its mount is taken away when it is back.
            Err(error) if absent(&app.site, &error) => {}
            result => result?,
        }
    }
    Ok(())
}

/// One mount that is to be made.
pub(crate) struct Mounting<'a> {
    /// Whose job it is for.
    pub session: &'a Session,
    /// What is mounted.
    pub buffer: &'a Buffer,
    /// Where, as it is noted.
    pub activation: Activation,
    /// Whether the job has it already: it was made before the job began.
    pub is_used: bool,
    /// Whether the job has one node only.
    pub one_host: bool,
}

/// A mount that is taken away.
pub(crate) struct Gone {
    /// How often it was interrupted.
    pub interruptions: u32,
    /// What is left of it on a node that does not answer.
    pub left: Option<Leftover>,
}

/// Has a client mount a namespace of a buffer that is fragments.
///
/// # Errors
/// The node's.
pub(crate) async fn mount<S: Site>(app: &App<S>, wanted: Mounting<'_>) -> Result<(), ApiError> {
    let Mounting { session, buffer, activation, one_host, .. } = wanted;
    let (node, mode) = (activation.node.clone(), activation.access_mode);
    let id = mount_id(&session.handle, &activation);
    squash::check_known(&app.site, &buffer.described.instance, &node)?;
    leftovers::clear(app, &node, &id).await.map_err(|error| on_node(&node, error))?;
    let addresses: Vec<StorageAddress> = target::addresses(app, &buffer.described.instance).await?;
    let nodes = target::usable(&app.site, &addresses);
    // Read after the mount was noted: whoever changes the key from now on gives this mount a credential of the new one.
    let found = buffer.described.instance.clone();
    let instance = app.database.transact(move |tx| instances::with_present_keys(tx, &found)).await?;
    encrypted::check(&app.site, &instance, std::slice::from_ref(&node))?;
    let namespace = target::namespace(&app.site, &buffer.described, mode, &node, nodes);
    let capability = squash::capability(&app.site, &instance, namespace.namespace);
    let spec = MountSpec {
        id,
        mountpoint: activation.mountpoint.clone(),
        target: target::with_credential(namespace, &instance, capability),
        // A private namespace has one node; a persistent buffer may be mounted for another job any time.
        exclusive: activation.buffer.is_own()
            && (one_host || mode == AccessMode::Private)
            && !activation.shared,
        behaviour: instance.behaviour.of_mounts(),
    };
    let status = app.site.mount(&node, &spec).await.map_err(|error| on_node(&node, error))?;
    let token = session.token.clone();
    // One that began after the mount was noted has told it itself.
    if spec.exclusive && app.database.transact(move |tx| transfers::any_in(tx, &token, mode)).await? {
        share(app, session, mode).await?;
    }
    let (name, noted) =
        (session.token.clone(), Activation { interruptions: status.interruptions, ..activation });
    app.database.transact(move |tx| activations::set(tx, &name, &noted)).await
}

/// Takes such a mount away. On a cluster one whose node does not answer is left behind: it is taken away when that is
/// back.
///
/// # Errors
/// The node does not let go.
pub(crate) async fn unmount<S: Site>(
    app: &App<S>,
    session: &Session,
    activation: &Activation,
    how: Unmount,
) -> Result<Gone, ApiError> {
    let node = activation.node.clone();
    let id = mount_id(&session.handle, activation);
    let interruptions = match app.site.cluster() {
        // Asked once more, as nothing asks later; on a cluster the last health check will do.
        None => {
            let last = app.site.health(&node).await.ok();
            last.and_then(|health| health.mounts.into_iter().find(|mount| mount.id == id))
        }
        Some(_) => {
            let views = app.site.nodes();
            crate::views::seen_mount(&views, &node, &id).cloned()
        }
    };
    let interruptions = interruptions.map_or(activation.interruptions, |mount| mount.interruptions);
    let left = match app.site.unmount(&node, &id, how).await {
        Ok(()) => None,
        Err(error) if absent(&app.site, &error) => {
            tracing::warn!(token = ?session.token, ?node, id, %error, "a mount is left behind until its node is back");
            Some(Leftover { node, kind: Kind::Mount, id })
        }
        Err(error) => return Err(error),
    };
    Ok(Gone { interruptions, left })
}

/// Errors name the node, once.
pub(crate) fn on_node(node: &NodeName, error: ApiError) -> ApiError {
    if error.message.contains(&format!("node {node}")) || node == COMPUTE_NODE {
        return error;
    }
    ApiError { message: format!("node {node}: {}", error.message), ..error }
}
