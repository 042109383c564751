//! The pool `local`: the disk behind the state folder of one machine.

use daemon::error::user;
use wire::control::{ApiError, ErrorCode, PoolStatus};

use super::kind::Kind;
use super::refusals::full;
use super::room::{
    Ground, LOCAL_GRANULARITY_BYTES, LOCAL_POOL, Placement, Share, Wish, equal_parts, too_few_nodes,
};
use crate::local_nodes::name_of;
use crate::site::{PoolKind, PoolSetting, Site};

/// The most storage nodes on one machine: each is a process.
const FRAGMENTS_MAX: u32 = 64;

/// One disk under every node of a machine.
pub(super) struct Disk;

impl<S: Site> Kind<S> for Disk {
    fn status(&self, ground: &Ground, _pool: &PoolSetting, shares: &[Share]) -> PoolStatus {
        status(ground, shares)
    }

    /// The number of nodes is the caller's.
    fn fragments_min(&self, wish: &Wish<'_>) -> Result<u64, ApiError> {
        Ok(u64::from(wish.fragments.unwrap_or(1)).max(wish.nodes_min()?))
    }

    fn place(
        &self,
        ground: &Ground,
        pool: &PoolSetting,
        _bytes: u64,
        wish: &Wish<'_>,
        shares: &[Share],
    ) -> Result<Placement, ApiError> {
        place(pool, &status(ground, shares), wish)
    }
}

/// Space that is promised and not yet written still shows as available on the disk.
fn status(ground: &Ground, shares: &[Share]) -> PoolStatus {
    let allocated: u64 = shares.iter().map(|share| share.capacity_bytes).sum();
    let promised: u64 = shares.iter().map(|share| share.capacity_bytes - share.on_disk_bytes).sum();
    let free = ground.disk.available_bytes.saturating_sub(promised);
    PoolStatus {
        name: LOCAL_POOL.to_owned(),
        granularity_bytes: LOCAL_GRANULARITY_BYTES,
        quantity: (allocated + free) / LOCAL_GRANULARITY_BYTES,
        free: free / LOCAL_GRANULARITY_BYTES,
    }
}

/// Nodes are processes on one disk: as many as are wished for, else one.
fn place(pool: &PoolSetting, status: &PoolStatus, wish: &Wish<'_>) -> Result<Placement, ApiError> {
    let count = wish.fragments.unwrap_or(1);
    if u64::from(count) < wish.nodes_min()? {
        return Err(too_few_nodes());
    }
    if !(1..=FRAGMENTS_MAX).contains(&count) {
        let message = format!("a buffer over {count} storage nodes is not possible");
        return Err(user(ErrorCode::BadFragments, message, format!("choose 1 to {FRAGMENTS_MAX}")));
    }
    let (fragment_bytes, capacity_bytes) =
        equal_parts(wish.requested_bytes, pool.granularity_bytes, count.into())?;
    let taken_bytes = capacity_bytes.saturating_mul(wish.copies());
    if taken_bytes > status.free * status.granularity_bytes {
        return Err(full(status, capacity_bytes, wish));
    }
    Ok(Placement {
        pool: pool.name.clone(),
        granularity_bytes: pool.granularity_bytes,
        fragment_bytes,
        capacity_bytes,
        nodes: (0..count).map(name_of).collect(),
        kind: PoolKind::Disk,
    })
}

#[cfg(test)]
mod tests {
    use model::NodeName;
    use model::phase::Redundancy;

    use super::*;
    use crate::memory_site::MemorySite;
    use crate::site::DiskSpace;

    fn share(capacity_bytes: u64, on_disk_bytes: u64) -> Share {
        Share { pool: LOCAL_POOL.into(), capacity_bytes, on_disk_bytes, nodes: vec![NodeName::literal("n0")] }
    }

    #[test]
    fn what_is_promised_but_not_written_is_not_free() {
        let ground = Ground::of_machine(DiskSpace { available_bytes: 100 << 20 });
        let shares = [share(40 << 20, 10 << 20), share(20 << 20, 20 << 20)];
        let pool = &ground.statuses::<MemorySite>(&shares)[0];
        assert_eq!((pool.free, pool.quantity), (70, 130));
        let place = |mib: u64| {
            ground.place::<MemorySite>(
                &Wish {
                    requested_bytes: mib << 20,
                    pool: None,
                    fragments: None,
                    access_modes: &[],
                    redundancy: Redundancy::None,
                },
                &shares,
            )
        };
        assert_eq!(place(70).unwrap().nodes, ["n0"]);
        assert_eq!(place(71).unwrap_err().code, ErrorCode::PoolFull);
        let error = place(131).unwrap_err();
        assert_eq!(error.code, ErrorCode::PoolTooSmall);
        assert!(error.message.contains("131 MiB") && error.message.contains("130 MiB"), "{}", error.message);
    }
}
