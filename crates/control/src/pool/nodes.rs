//! The pools of a cluster: every storage node brings its capacity, in whole grains.
//!
//! An instance is spread over as many nodes as it has grains, as far as there are nodes with room: capacity decides
//! bandwidth. All its fragments have the same size.

use model::{NodeName, phase::AccessMode};
use wire::control::{ApiError, NodeRole, PoolStatus};

use super::kind::{Kind, Step};
use super::refusals::{full, no_private_stage};
use super::room::{Ground, Placement, Share, Wish, equal_parts, too_few_nodes};
use crate::app::App;
use crate::lifecycle::{buffers::Buffer, fragments};
use crate::script::Plan;
use crate::site::{NodeView, PoolKind, PoolSetting, Site};
use crate::state::instances::{self, Instance};
use crate::state::sessions::Session;

/// The storage nodes of a cluster.
pub(super) struct StorageNodes;

impl<S: Site> Kind<S> for StorageNodes {
    fn status(&self, ground: &Ground, pool: &PoolSetting, shares: &[Share]) -> PoolStatus {
        status(pool, ground, shares)
    }

    fn place(
        &self,
        ground: &Ground,
        pool: &PoolSetting,
        _bytes: u64,
        wish: &Wish<'_>,
        shares: &[Share],
    ) -> Result<Placement, ApiError> {
        place(pool, ground, wish, shares)
    }

    fn spare(
        &self,
        ground: &Ground,
        instance: &Instance,
        taken: &[NodeName],
        shares: &[Share],
    ) -> Option<NodeName> {
        spare(ground, instance, taken, shares)
    }

    fn check_script(&self, plan: &Plan) -> Result<(), ApiError> {
        no_private_stage(plan)
    }

    fn prepare<'a>(
        &'a self,
        app: &'a App<S>,
        _session: &'a Session,
        buffer: &'a mut Buffer,
        hosts: &'a [NodeName],
    ) -> Step<'a> {
        Box::pin(add_private(app, buffer, hosts))
    }
}

/// Gives each node a private namespace of its own where the instance has private ones.
async fn add_private<S: Site>(app: &App<S>, buffer: &mut Buffer, hosts: &[NodeName]) -> Result<(), ApiError> {
    if !buffer.described.instance.access_modes.contains(&AccessMode::Private) {
        return Ok(());
    }
    let (token, hosts) = (buffer.token.clone(), hosts.to_vec());
    let add = move |tx: &rusqlite::Transaction<'_>| instances::add_private_namespaces(tx, &token, &hosts);
    buffer.described.private = app.database.transact(add).await?;
    fragments::make(app, &buffer.described).await
}

/// A storage node's part of a pool, grains.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    node: NodeName,
    /// Online and not drained.
    usable: bool,
    capacity: u64,
    allocated: u64,
}

impl Part {
    fn free(&self) -> u64 {
        if self.usable { self.capacity.saturating_sub(self.allocated) } else { 0 }
    }

    /// What it counts for: a node that gets nothing new, for what it holds.
    fn quantity(&self) -> u64 {
        self.allocated + self.free()
    }
}

fn status(pool: &PoolSetting, ground: &Ground, shares: &[Share]) -> PoolStatus {
    let parts = parts(pool, ground, shares);
    PoolStatus {
        name: pool.name.clone(),
        granularity_bytes: pool.granularity_bytes,
        quantity: parts.iter().map(Part::quantity).sum(),
        free: parts.iter().map(Part::free).sum(),
    }
}

/// Spreads the wish over the nodes with most room.
fn place(
    pool: &PoolSetting,
    ground: &Ground,
    wish: &Wish<'_>,
    shares: &[Share],
) -> Result<Placement, ApiError> {
    let mut parts = parts(pool, ground, shares);
    parts.retain(|part| part.free() > 0);
    // Most room first; the name decides among equals, so that the same state gives the same answer.
    parts.sort_by(|a, b| b.free().cmp(&a.free()).then_with(|| a.node.cmp(&b.node)));
    let grains = wish.requested_bytes.div_ceil(pool.granularity_bytes).max(1);
    let least = wish.nodes_min()?;
    if (parts.len() as u64) < least {
        return Err(too_few_nodes());
    }
    let most = wish.fragments.map_or(grains, u64::from).min(grains).max(least).min(parts.len() as u64);
    for count in (least..=most).rev() {
        let (fragment_bytes, capacity_bytes) =
            equal_parts(wish.requested_bytes.max(1), pool.granularity_bytes, count)?;
        let chosen = &parts[..usize::try_from(count).unwrap_or(parts.len())];
        let taken_bytes = fragment_bytes.saturating_mul(wish.copies());
        if chosen.iter().all(|part| part.free() * pool.granularity_bytes >= taken_bytes) {
            return Ok(Placement {
                pool: pool.name.clone(),
                granularity_bytes: pool.granularity_bytes,
                fragment_bytes,
                capacity_bytes,
                nodes: chosen.iter().map(|part| part.node.clone()).collect(),
                kind: PoolKind::Storage,
            });
        }
    }
    Err(full(&status(pool, ground, shares), grains.saturating_mul(pool.granularity_bytes), wish))
}

/// The node with most room that has no fragment of the instance, and room for one.
fn spare(ground: &Ground, instance: &Instance, taken: &[NodeName], shares: &[Share]) -> Option<NodeName> {
    let pool = ground.pools.iter().find(|pool| pool.name == instance.pool)?;
    let bytes = instance.allocated_bytes() / (instance.nodes.len() as u64).max(1);
    let mut parts = parts(pool, ground, shares);
    let has_part = |node: &NodeName| instance.nodes.contains(node) || taken.contains(node);
    parts.retain(|part| part.free() * pool.granularity_bytes >= bytes && !has_part(&part.node));
    parts.into_iter().max_by_key(Part::free).map(|part| part.node)
}

fn parts(pool: &PoolSetting, ground: &Ground, shares: &[Share]) -> Vec<Part> {
    let default = ground.pools.first().map(|pool| pool.name.as_str());
    let belongs = |view: &&NodeView| {
        let named = view.registration.as_ref().and_then(|node| node.pool.as_deref());
        view.has(NodeRole::Storage) && named.or(default) == Some(pool.name.as_str())
    };
    let part = |view: &NodeView| {
        let on_it = shares.iter().filter(|share| share.pool == pool.name);
        let allocated: u64 = on_it
            .map(|share| {
                let fragments = share.nodes.iter().filter(|node| **node == view.name).count() as u64;
                fragments * share.fragment_bytes()
            })
            .sum();
        let capacity = view.registration.as_ref().map_or(0, |node| node.capacity_bytes);
        Part {
            node: view.name.clone(),
            usable: view.online && view.drained.is_none(),
            capacity: capacity / pool.granularity_bytes,
            allocated: allocated / pool.granularity_bytes,
        }
    };
    ground.views.iter().filter(belongs).map(part).collect()
}

#[cfg(test)]
mod tests {
    use model::phase::Redundancy;
    use wire::control::{ErrorCode, RegisterNode};

    use super::*;
    use crate::memory_site::MemorySite;
    use crate::site::DiskSpace;

    fn view(name: &str, grains: u64) -> NodeView {
        let registration = Some(RegisterNode {
            name: NodeName::unchecked(name),
            roles: vec![NodeRole::Storage],
            address: String::new(),
            pool: None,
            capacity_bytes: grains << 30,
            mount_root: "/m".into(),
            version: String::new(),
        });
        NodeView { name: NodeName::unchecked(name), online: true, registration, ..NodeView::default() }
    }

    fn ground(views: Vec<NodeView>) -> Ground {
        let pool = |name: &str| PoolSetting {
            name: name.into(),
            granularity_bytes: 1 << 30,
            kind: PoolKind::Storage,
            persistent_redundancy: Redundancy::None,
            uids: Vec::new(),
            root_squash: false,
            encrypt: false,
        };
        Ground { pools: vec![pool("wlm_pool"), pool("other")], views, disk: DiskSpace { available_bytes: 0 } }
    }

    fn share(grains: u64, nodes: &[&str]) -> Share {
        let nodes = nodes.iter().map(|node| NodeName::unchecked(*node)).collect();
        Share { pool: "wlm_pool".into(), capacity_bytes: grains << 30, on_disk_bytes: 0, nodes }
    }

    fn place(ground: &Ground, grains: u64, shares: &[Share]) -> Result<(u64, Vec<NodeName>), ApiError> {
        let wish = Wish {
            requested_bytes: grains << 30,
            pool: None,
            fragments: None,
            access_modes: &[],
            redundancy: Redundancy::None,
        };
        ground
            .place::<MemorySite>(&wish, shares)
            .map(|placement| (placement.capacity_bytes >> 30, placement.nodes))
    }

    fn names(names: &[&str]) -> Vec<NodeName> {
        names.iter().map(|name| NodeName::unchecked(*name)).collect()
    }

    #[test]
    fn one_grain_goes_to_each_node_and_all_fragments_are_equal() {
        let ground = ground(vec![view("a", 4), view("b", 4), view("c", 4)]);
        assert_eq!(place(&ground, 1, &[]).unwrap(), (1, names(&["a"])));
        assert_eq!(place(&ground, 2, &[]).unwrap(), (2, names(&["a", "b"])));
        assert_eq!(place(&ground, 4, &[]).unwrap(), (6, names(&["a", "b", "c"])));
        assert_eq!(place(&ground, 12, &[]).unwrap(), (12, names(&["a", "b", "c"])));
    }

    #[test]
    fn what_is_mirrored_takes_two_nodes_and_twice_the_room() {
        let wish = |grains: u64| Wish {
            requested_bytes: grains << 30,
            pool: None,
            fragments: None,
            access_modes: &[],
            redundancy: Redundancy::Mirror,
        };
        let three = ground(vec![view("a", 4), view("b", 4), view("c", 4)]);
        let place = |grains| {
            three
                .place::<MemorySite>(&wish(grains), &[])
                .map(|placed| (placed.capacity_bytes >> 30, placed.nodes))
        };
        assert_eq!(place(1).unwrap(), (2, names(&["a", "b"])), "one grain on each of two nodes");
        assert_eq!(place(6).unwrap(), (6, names(&["a", "b", "c"])));
        assert_eq!(place(7).unwrap_err().code, ErrorCode::PoolTooSmall, "14 grains of 12");
        let one = ground(vec![view("a", 4)]);
        let error = one.place::<MemorySite>(&wish(1), &[]).unwrap_err();
        assert_eq!(error.code, ErrorCode::MirrorNeedsNodes, "{error}");
    }

    #[test]
    fn nodes_with_more_room_come_first_and_full_ones_not_at_all() {
        let ground = ground(vec![view("a", 4), view("b", 4), view("c", 4)]);
        let shares = [share(4, &["a"]), share(1, &["b"])];
        assert_eq!(place(&ground, 1, &shares).unwrap(), (1, names(&["c"])));
        assert_eq!(place(&ground, 6, &shares).unwrap(), (6, names(&["c", "b"])));
        assert_eq!(place(&ground, 8, &shares).unwrap_err().code, ErrorCode::PoolFull);
        assert_eq!(place(&ground, 13, &shares).unwrap_err().code, ErrorCode::PoolTooSmall);
    }

    #[test]
    fn nodes_that_are_offline_or_drained_give_nothing_and_count_for_what_they_hold() {
        let mut views = vec![view("a", 4), view("b", 4), view("c", 4)];
        views[0].online = false;
        views[1].drained = Some("a fan".into());
        let ground = ground(views);
        let shares = [share(1, &["a"]), share(2, &["b"])];
        let pools = ground.statuses::<MemorySite>(&shares);
        assert_eq!((pools[0].quantity, pools[0].free), (7, 4));
        assert_eq!((pools[1].quantity, pools[1].free), (0, 0), "the other pool has no node");
        assert_eq!(place(&ground, 3, &shares).unwrap().1, ["c"]);
    }

    #[test]
    fn an_unknown_pool_is_refused_with_those_that_there_are() {
        let wish = Wish {
            requested_bytes: 1,
            pool: Some("fast"),
            fragments: None,
            access_modes: &[],
            redundancy: Redundancy::None,
        };
        let error = ground(vec![]).place::<MemorySite>(&wish, &[]).unwrap_err();
        assert!(error.message.contains("fast") && error.advice.contains("pool=wlm_pool"), "{error}");
    }
}
