//! Pools: how much flash there is, how much of it is free, and what a buffer of each kind of pool is.
//!
//! ```text
//! pool/room.rs   what there is to allocate from, what is taken, what is wished for
//! pool/kind.rs   what a kind answers, from the script to the end of its buffers
//! ```
//!
//! and a file for each kind. Embedded, the one pool is the disk behind the state folder; on a cluster each storage node
//! brings its capacity, and compute nodes may bring their own flash. What is promised to an instance counts as taken,
//! so that what is free can really be filled.

mod disk;
mod job_nodes;
pub(crate) mod kind;
mod nodes;
mod refusals;
mod room;
mod striped;
mod volumes;

use model::NodeName;
use model::phase::AccessMode;
use wire::control::{ApiError, Owner, PoolStatus};

use kind::Kind;
pub(crate) use room::{Ground, LOCAL_POOL, Share, Wish, rounding_note};
use room::{Placement, equal_parts};

use crate::site::{PoolKind, PoolSetting, Site};
use crate::state::instances::Instance;

/// What answers for a kind.
pub(crate) fn kind<S: Site>(kind: PoolKind) -> &'static dyn Kind<S> {
    match kind {
        PoolKind::Disk => &disk::Disk,
        PoolKind::Storage => &nodes::StorageNodes,
        PoolKind::NodeLocal => &volumes::PrivateVolumes,
        PoolKind::NodeLocalStriped => &striped::StripedOverJob,
    }
}

/// What answers for buffers with these access modes in a pool; `None` names the default pool.
///
/// # Errors
/// There is no such pool, or the disk cannot be asked.
pub(crate) fn kind_in<S: Site>(
    site: &S,
    pool: Option<&str>,
    access_modes: &[AccessMode],
) -> Result<&'static dyn Kind<S>, ApiError> {
    let ground = Ground::of(site)?;
    Ok(kind(ground.pool(pool)?.kind.of_buffer(access_modes)))
}

/// What answers for persistent buffers, whichever pool they are in.
pub(crate) fn kind_of_persistent<S: Site>(site: &S) -> &'static dyn Kind<S> {
    kind(if site.cluster().is_some() { PoolKind::Storage } else { PoolKind::Disk })
}

/// Refuses a user who is to have no buffers in a pool; `None` names the default pool.
///
/// # Errors
/// So it is, or there is no such pool.
pub(crate) fn check_user<S: Site>(site: &S, pool: Option<&str>, owner: &Owner) -> Result<(), ApiError> {
    Ground::of(site)?.pool(pool)?.check_user(owner.uid)
}

/// Refuses a persistent buffer in a pool that has none, or none of this user; `None` names the default pool.
///
/// # Errors
/// It has none, or there is no such pool.
pub(crate) fn check_persistent<S: Site>(site: &S, pool: Option<&str>, owner: &Owner) -> Result<(), ApiError> {
    let ground = Ground::of(site)?;
    let pool = ground.pool(pool)?;
    pool.check_user(owner.uid)?;
    kind::<S>(pool.kind).check_persistent(pool)
}

impl Ground {
    /// Every pool as everybody sees it.
    pub(crate) fn statuses<S: Site>(&self, shares: &[Share]) -> Vec<PoolStatus> {
        self.pools.iter().map(|pool| kind::<S>(pool.kind).status(self, pool, shares)).collect()
    }

    /// How much a wish would take at least, checked against the size of the whole pool.
    ///
    /// # Errors
    /// An unknown pool, or one that could never hold it.
    pub(crate) fn check<S: Site>(
        &self,
        wish: &Wish<'_>,
        shares: &[Share],
    ) -> Result<(&PoolSetting, u64), ApiError> {
        let pool = self.pool(wish.pool)?;
        let kind = kind::<S>(pool.kind.of_buffer(wish.access_modes));
        let count = kind.fragments_min(wish)?;
        let (_, bytes) = equal_parts(wish.requested_bytes, pool.granularity_bytes, count)?;
        kind.check(self, pool, bytes, wish, shares)?;
        Ok((pool, bytes))
    }

    /// Finds room.
    ///
    /// # Errors
    /// An unknown pool, one that could never hold the wish, or one that is too full now.
    pub(crate) fn place<S: Site>(&self, wish: &Wish<'_>, shares: &[Share]) -> Result<Placement, ApiError> {
        let (pool, bytes) = self.check::<S>(wish, shares)?;
        kind::<S>(pool.kind.of_buffer(wish.access_modes)).place(self, pool, bytes, wish, shares)
    }

    /// The node with most room that could take one more fragment of an instance and has none of it, nor keeps one that
    /// was given up (`taken`); `None`: there is none.
    pub(crate) fn spare<S: Site>(
        &self,
        instance: &Instance,
        taken: &[NodeName],
        shares: &[Share],
    ) -> Option<NodeName> {
        kind::<S>(instance.kind).spare(self, instance, taken, shares)
    }
}
