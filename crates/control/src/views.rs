//! What the nodes said last of one mount or one instance.

use model::NodeName;
use wire::node::MountStatus;

use crate::site::NodeView;
use crate::state::instances::Instance;

/// What a node said last of a mount.
pub(crate) fn seen_mount<'a>(nodes: &'a [NodeView], node: &NodeName, id: &str) -> Option<&'a MountStatus> {
    let health = nodes.iter().find(|view| view.name == *node)?.health.as_ref()?;
    health.mounts.iter().find(|mount| mount.id == id)
}

/// Bytes in use in an instance, as the nodes said last that have its parts: not one that was given up for lost.
pub(crate) fn used_bytes(instance: &Instance, nodes: &[NodeView]) -> u64 {
    let nodes = nodes.iter().filter(|view| instance.nodes.contains(&view.name));
    let fragments = nodes.filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    fragments.filter(|fragment| fragment.instance == instance.id).map(|fragment| fragment.used_bytes).sum()
}

/// Bytes that an instance holds at most: what its nodes say of the parts that they serve, and as much as a part may
/// hold where nobody says how much that is now.
pub(crate) fn held_at_most(instance: &Instance, nodes: &[NodeView]) -> u64 {
    if instance.nodes.is_empty() {
        return instance.capacity_bytes;
    }
    let share = instance.capacity_bytes.div_ceil(instance.nodes.len() as u64);
    let held = |name: &NodeName| {
        // On one machine a node that does not run is not written to, and on a cluster one that is cut off may be.
        let heard = |view: &&NodeView| view.name == *name && (view.online || view.registration.is_none());
        let health = nodes.iter().find(heard).and_then(|view| view.health.as_ref());
        let mut fragments = health.iter().flat_map(|health| &health.fragments);
        let part =
            fragments.find(|part| part.instance == instance.id && part.error.is_none() && !part.starting);
        part.map_or(share, |part| part.used_bytes)
    };
    instance.nodes.iter().map(held).sum()
}
