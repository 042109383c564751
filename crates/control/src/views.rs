//! What the nodes said last of one mount or one instance.

use wire::node::MountStatus;

use crate::site::NodeView;

/// What a node said last of a mount.
pub fn seen_mount<'a>(nodes: &'a [NodeView], node: &str, id: &str) -> Option<&'a MountStatus> {
    let health = nodes.iter().find(|view| view.name == node)?.health.as_ref()?;
    health.mounts.iter().find(|mount| mount.id == id)
}

/// Bytes in use in an instance, as its nodes said last.
pub fn used_bytes(instance: &str, nodes: &[NodeView]) -> u64 {
    let fragments = nodes.iter().filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    fragments.filter(|fragment| fragment.instance == instance).map(|fragment| fragment.used_bytes).sum()
}
