//! How what a session has mounted is taken away, which `pre_run`, `post_run` and `teardown` do.

use std::collections::HashMap;
use std::path::Path;

use model::Token;
use model::buffer::BufferRef;
use wire::control::ApiError;

use super::join_all;
use crate::app::App;
use crate::node_api::Unmount;
use crate::pool;
use crate::site::{PoolKind, Site};
use crate::state::activations::{self, Activation};
use crate::state::sessions::Session;
use crate::state::{self, instances, leftovers};

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
    let read = move |tx: &rusqlite::Transaction<'_>| with_kinds(tx, &name);
    let all = app.database.transact(read).await?;
    let mounted = all.into_iter().filter(|(activation, _)| activation.mounted);
    let (gone, stays): (Vec<_>, Vec<_>) = mounted.partition(|(activation, _)| match which {
        Which::All => true,
        Which::At(place) => activation.mountpoint == place,
    });
    let ends = gone.iter().map(async |(activation, kind)| {
        let gone = pool::kind::<S>(*kind).release(app, session, activation, how).await?;
        let (interruptions, name) = (gone.interruptions, session.token.clone());
        let ended = Activation { mounted: false, interruptions, ..activation.clone() };
        let note = move |tx: &rusqlite::Transaction<'_>| {
            gone.left.iter().try_for_each(|left| leftovers::add(tx, left))?;
            activations::set(tx, &name, &ended)
        };
        app.database.transact(note).await
    });
    join_all(ends).await.into_iter().collect::<Result<(), ApiError>>()?;
    if !stays.is_empty() {
        let name = session.token.clone();
        let forget = move |tx: &rusqlite::Transaction<'_>| {
            gone.iter().try_for_each(|(activation, _)| activations::remove(tx, &name, activation))
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

/// What the session has mounted, or had, and of which kind of buffer each is.
fn with_kinds(tx: &rusqlite::Transaction<'_>, token: &Token) -> state::Result<Vec<(Activation, PoolKind)>> {
    let mut kinds: HashMap<BufferRef, PoolKind> = HashMap::new();
    let mut found = Vec::new();
    for activation in activations::of(tx, token)? {
        let kind = match kinds.get(&activation.buffer) {
            Some(kind) => *kind,
            None => {
                let holder = activation.buffer.holder(token);
                instances::find(tx, holder)?.map_or_else(PoolKind::default, |instance| instance.kind)
            }
        };
        kinds.insert(activation.buffer.clone(), kind);
        found.push((activation, kind));
    }
    Ok(found)
}
