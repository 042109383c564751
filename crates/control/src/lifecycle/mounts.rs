//! What `pre_run`, `post_run` and `teardown` share: where mounts are and how they are taken away.

use std::path::{Path, PathBuf};

use model::phase::AccessMode;
use wire::control::ApiError;

use super::{absent, job_nodes, join_all};
use crate::app::App;
use crate::node_api::{Release, Unmount};
use crate::site::Site;
use crate::state::activations::{self, Activation};
use crate::state::instances;
use crate::state::leftovers::{self, Kind, Leftover};
use crate::state::sessions::Session;

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
pub(crate) fn place(buffer: &str, mode: AccessMode) -> String {
    match (buffer, mode) {
        ("", mode) => word(mode).to_owned(),
        (name, AccessMode::Striped) => format!("persistent-{name}"),
        (name, AccessMode::Private) => format!("persistent-{name}-private"),
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
pub(crate) fn default_mountpoint(root: &Path, token: &str, buffer: &str, mode: AccessMode) -> PathBuf {
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
        all.into_iter().filter(|mount| mount.mounted && mount.buffer.is_empty() && mount.access_mode == mode);
    for mount in own {
        let id = mount_id(&session.handle, &mount);
        match app.site.share_mount(&mount.node, &id).await {
            // Who is cut off is told nothing; its mount is taken away when it is back.
            Err(error) if absent(&app.site, &error) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Which of a session's mounts are taken away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Which<'a> {
    /// All of them.
    All,
    /// The one here; where it is not the last one, nothing is kept of it.
    At(&'a Path),
}

/// Unmounts what the session has mounted, on all nodes at once; says whether something stays mounted. The counts of
/// interruptions are kept for the summary. On a cluster a node that does not answer is left behind: its mounts are
/// taken away when it is back.
///
/// # Errors
/// A node does not let go; what is still there is still noted as mounted.
pub(crate) async fn unmount_of<S: Site>(
    app: &App<S>,
    session: &Session,
    which: Which<'_>,
    how: Unmount,
) -> Result<bool, ApiError> {
    let name = session.token.clone();
    let read =
        move |tx: &rusqlite::Transaction<'_>| Ok((instances::find(tx, &name)?, activations::of(tx, &name)?));
    let (instance, all) = app.database.transact(read).await?;
    let mounted = all.into_iter().filter(|activation| activation.mounted);
    let (gone, stays): (Vec<_>, Vec<_>) = mounted.partition(|activation| match which {
        Which::All => true,
        Which::At(place) => activation.mountpoint == place,
    });
    let ends = gone.iter().map(async |activation| match job_nodes::is_one(instance.as_ref(), activation) {
        true => let_go(app, session, activation).await,
        false => unmount(app, session, activation, how).await,
    });
    join_all(ends).await.into_iter().collect::<Result<(), ApiError>>()?;
    if !stays.is_empty() {
        let name = session.token.clone();
        let forget = move |tx: &rusqlite::Transaction<'_>| {
            gone.iter().try_for_each(|activation| activations::remove(tx, &name, activation))
        };
        app.database.transact(forget).await?;
    }
    Ok(!stays.is_empty())
}

/// As [`unmount_of`], of all.
///
/// # Errors
/// As there.
pub(crate) async fn unmount_all<S: Site>(
    app: &App<S>,
    session: &Session,
    how: Unmount,
) -> Result<(), ApiError> {
    unmount_of(app, session, Which::All, how).await.map(drop)
}

/// The private volume of a node is that node's from now on.
async fn let_go<S: Site>(app: &App<S>, session: &Session, activation: &Activation) -> Result<(), ApiError> {
    let left = job_nodes::release(app, session, &activation.node, Release::Drained).await?;
    note_gone(app, session, activation.clone(), left).await
}

async fn unmount<S: Site>(
    app: &App<S>,
    session: &Session,
    activation: &Activation,
    how: Unmount,
) -> Result<(), ApiError> {
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
            tracing::warn!(token = session.token, node, id, %error, "a mount is left behind until its node is back");
            Some(Leftover { node, kind: Kind::Mount, id })
        }
        Err(error) => return Err(error),
    };
    note_gone(app, session, Activation { interruptions, ..activation.clone() }, left).await
}

async fn note_gone<S: Site>(
    app: &App<S>,
    session: &Session,
    activation: Activation,
    left: Option<Leftover>,
) -> Result<(), ApiError> {
    let gone = Activation { mounted: false, ..activation };
    let name = session.token.clone();
    let note = move |tx: &rusqlite::Transaction<'_>| {
        left.iter().try_for_each(|left| leftovers::add(tx, left))?;
        activations::set(tx, &name, &gone)
    };
    app.database.transact(note).await
}
