//! The flash of every compute node that gives some, for the jobs that run there: a pool of kind node-local. What its
//! private volumes and its striped buffers have in common.
//!
//! Which nodes a job gets is the workload manager's choice, made after its buffer was set up. So what is set up has no
//! place yet, and each node has the last word when the job comes. A capacity is what each of the job's nodes is to give
//! for private volumes, and what all give together for a striped buffer.

use daemon::error::user;
use wire::control::{ApiError, ErrorCode, NodeRole, PoolStatus};
use wire::node::LocalSpace;

use super::refusals::numbers;
use super::room::{Placement, Share};
use crate::site::{NodeView, PoolKind, PoolSetting};

/// The pool as everybody sees it. Nodes that are offline or drained count for what they hold.
pub(super) fn status(pool: &PoolSetting, views: &[NodeView], shares: &[Share]) -> PoolStatus {
    let grains = |bytes: u64| bytes / pool.granularity_bytes;
    let (mut quantity, mut free) = (0, 0);
    for (view, space) in spaces(views) {
        let usable = view.online && view.drained.is_none();
        let free_here = if usable { grains(space.free_bytes) } else { 0 };
        free += free_here;
        quantity += free_here + space.allocated_bytes.div_ceil(pool.granularity_bytes);
    }
    // What is striped over nodes is on their flash, and no volume of theirs.
    let striped = shares.iter().filter(|share| share.pool == pool.name && !share.nodes.is_empty());
    quantity += striped.map(|share| share.capacity_bytes / pool.granularity_bytes).sum::<u64>();
    PoolStatus { name: pool.name.clone(), granularity_bytes: pool.granularity_bytes, quantity, free }
}

/// Checks that a node could give so much.
///
/// # Errors
/// None could, ever.
pub(super) fn check(pool: &PoolSetting, views: &[NodeView], bytes: u64) -> Result<(), ApiError> {
    let largest = spaces(views).map(|(_, space)| space.allocated_bytes + space.free_bytes).max();
    let largest = largest.unwrap_or_default();
    if bytes <= largest {
        return Ok(());
    }
    let message = format!(
        "the buffer asks for {} on each node of the job, the largest node of pool {} has {}",
        numbers(bytes),
        pool.name,
        numbers(largest)
    );
    Err(user(ErrorCode::PoolTooSmall, message, "ask for less"))
}

/// What is set up before the nodes are known.
pub(super) fn place(pool: &PoolSetting, kind: PoolKind, bytes: u64) -> Placement {
    Placement {
        pool: pool.name.clone(),
        granularity_bytes: pool.granularity_bytes,
        fragment_bytes: bytes,
        capacity_bytes: bytes,
        nodes: Vec::new(),
        kind,
    }
}

fn spaces(views: &[NodeView]) -> impl Iterator<Item = (&NodeView, LocalSpace)> {
    let compute = views.iter().filter(|view| view.has(NodeRole::Compute));
    compute.filter_map(|view| Some((view, view.health.as_ref()?.local?)))
}

/// Refuses a mirror there.
pub(super) fn no_mirror() -> ApiError {
    let message =
        "redundancy=mirror is not possible on the flash of the job's own nodes, which leave with the job";
    let advice = "leave redundancy= out, or ask for access_mode=striped in a pool of storage nodes";
    user(ErrorCode::MirrorNodeLocal, message, advice)
}

/// Refuses a persistent buffer there.
pub(super) fn not_persistent(pool: &PoolSetting) -> ApiError {
    let message = format!("pool {} is the flash of each job's own nodes", pool.name);
    user(ErrorCode::NotPersistent, message, "create the persistent buffer in another pool")
}
