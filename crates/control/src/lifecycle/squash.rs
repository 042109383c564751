//! `root_squash` of a pool: in what is mounted of its buffers root has the rights of nobody. Mounts ask the home shard
//! for that, as their credentials say.
//!
//! **Invariant:** where it is set no node serves or mounts a buffer of the pool that does not know it: what an older
//! release would not obey it is not given.

use model::NodeName;
use wire::control::ApiError;
use wire::data::credential::{Capability, Identity};
use wire::node::ROOT_SQUASH;

use super::known;
use crate::site::{PoolSetting, Site};
use crate::state::instances::Instance;

/// The instance's pool, as it is configured now.
fn pool_of(site: &impl Site, instance: &Instance) -> Option<PoolSetting> {
    site.cluster()?.pools.into_iter().find(|pool| pool.name == instance.pool)
}

/// What a mount of the instance may do.
pub(super) fn capability(site: &impl Site, instance: &Instance, namespace: u32) -> Capability {
    let identity = match pool_of(site, instance) {
        Some(PoolSetting { root_squash: true, .. }) => Identity::SquashingKernel,
        _ => Identity::Kernel,
    };
    Capability { identity, namespace, expires_s: None }
}

/// Refuses root to use the instance, also by a stage, which would have his rights.
///
/// # Errors
/// `not_allowed`.
pub(crate) fn check_user(site: &impl Site, instance: &Instance, uid: u32) -> Result<(), ApiError> {
    pool_of(site, instance).map_or(Ok(()), |pool| pool.check_not_squashed(uid))
}

/// Whether all that have to obey it, as far as they have been heard, are of a release that knows it: the nodes of the
/// instance, and `node`, which is to mount it.
///
/// # Errors
/// One is not.
pub(super) fn check_known(site: &impl Site, instance: &Instance, node: &NodeName) -> Result<(), ApiError> {
    let Some(pool) = pool_of(site, instance).filter(|pool| pool.root_squash) else { return Ok(()) };
    known::check(site, instance.nodes.iter().chain([node]), (ROOT_SQUASH, &pool.name))
}
