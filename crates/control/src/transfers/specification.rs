//! From transfers to what a node is told, and which node that is.
//!
//! **Invariant:** the same transfers give the same specification, so that a repeated start is the same start.

use model::phase::StageKind;
use wire::control::{ApiError, StagePair};
use wire::node::{StagePolicy, StageSpec};

use crate::control::{Control, no_such_session};
use crate::lifecycle::target::{self, Described};
use crate::lifecycle::{buffers, wrong_phase};
use crate::site::Site;
use crate::state;
use crate::state::instances::{self, Instance};
use crate::state::sessions::{self, Session};
use crate::state::transfers::Transfer;

/// What one worker copies, and where it runs.
pub struct Order {
    /// The node.
    pub node: String,
    /// What it is told.
    pub spec: StageSpec,
    /// The session that the transfers go with.
    pub session: Session,
}

/// The order for transfers that one worker makes; several are small files of one namespace, direction and owner.
///
/// # Errors
/// The buffer is not there, or its nodes are not.
pub async fn of<S: Site>(
    control: &Control<S>,
    transfers: &[Transfer],
    policy: StagePolicy,
) -> Result<Order, ApiError> {
    let first = &transfers[0];
    let (session, described) = buffer_of(control, first).await?;
    let node = node_in(&described.instance).unwrap_or_default().to_owned();
    let addresses = target::addresses(control, &described.instance).await?;
    let nodes = target::usable(&control.site, &addresses);
    let shown = first.untouched();
    let pair = |transfer: &Transfer| StagePair {
        buffer: transfer.buffer_path.clone(),
        pfs: transfer.pfs_path.clone(),
        size_hint: transfer.size_hint(),
    };
    let alone = transfers.len() == 1;
    let spec = StageSpec {
        id: first.id(&session.handle),
        direction: first.direction,
        kind: if alone { first.kind } else { StageKind::List },
        pfs_path: first.pfs_path.clone(),
        buffer_path: first.buffer_path.clone(),
        buffer_name: first.buffer_name(),
        source: shown.source,
        destination: shown.destination,
        target: target::namespace(&control.site, &described, first.access_mode, &node, nodes),
        owner: first.owner.clone(),
        policy,
        pairs: if alone { Vec::new() } else { transfers.iter().map(pair).collect() },
        ticket: String::new(),
    };
    Ok(Order { node, spec: target::with_ticket(&described.instance, spec), session })
}

/// The session that a transfer goes with, and the buffer.
async fn buffer_of<S: Site>(
    control: &Control<S>,
    transfer: &Transfer,
) -> Result<(Session, Described), ApiError> {
    let (token, holder) = (transfer.token.clone(), transfer.holder().to_owned());
    let read = move |tx: &rusqlite::Transaction<'_>| {
        let described = match sessions::find(tx, &holder)? {
            Some(session) => buffers::describe(tx, &session)?,
            None => None,
        };
        Ok((sessions::find(tx, &token)?, described))
    };
    let (session, described) = control.database.transact(read).await?;
    let session = session.ok_or_else(|| no_such_session(&transfer.token))?;
    let described = described.ok_or_else(|| match transfer.buffer.as_str() {
        "" => wrong_phase(&session, "nothing is allocated", "call setup first"),
        name => buffers::gone(name),
    })?;
    Ok((session, described))
}

/// The node that copies from and to an instance: it has its metadata.
fn node_in(instance: &Instance) -> Option<&str> {
    instance.nodes.first().map(String::as_str)
}

/// The node that a transfer is, or was, copied by, and that node's name for it. `None`: the buffer is gone.
pub fn place_of(
    tx: &rusqlite::Transaction<'_>,
    transfer: &Transfer,
) -> state::Result<Option<(String, String)>> {
    let session = sessions::find(tx, &transfer.token)?;
    let instance = instances::find(tx, transfer.holder())?;
    Ok(session
        .zip(instance)
        .and_then(|(session, instance)| Some((node_in(&instance)?.to_owned(), transfer.id(&session.handle)))))
}
