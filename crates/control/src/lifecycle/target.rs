//! From an instance's row to what storage nodes and clients are told of it.
//!
//! **Invariant:** the same row gives the same specification, so that a repeated request is the same request.

use model::phase::AccessMode;
use model::stripe::Layout;
use wire::control::{ApiError, Owner};
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, StorageAddress};

use crate::control::Control;
use crate::site::Site;
use crate::state::instances::Instance;

/// How long a client keeps trying a storage node that does not answer, milliseconds. A node that died is back in
/// seconds; two minutes also cover the recovery of a large fragment.
const GRACE_MS: u64 = 120_000;

/// Permission bits of a namespace's root: the buffer is its owner's alone.
const ROOT_MODE: u32 = 0o700;

/// The fragment whose node keeps a namespace's metadata.
const HOME: u32 = 0;

/// Where the data paths of the instance's nodes listen, in order. Starts the nodes that do not run.
///
/// # Errors
/// A node does not come up.
pub async fn addresses<S: Site>(
    control: &Control<S>,
    instance: &Instance,
) -> Result<Vec<StorageAddress>, ApiError> {
    let count = u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX);
    control.site.ensure_nodes(count).await
}

/// A namespace for a client.
pub fn namespace(instance: &Instance, mode: AccessMode, nodes: Vec<StorageAddress>) -> NamespaceTarget {
    NamespaceTarget {
        instance: instance.id.clone(),
        namespace: number(mode),
        key: instance.key.clone(),
        layout: layout(instance, mode),
        home: HOME,
        nodes,
        grace_ms: GRACE_MS,
    }
}

/// Every fragment for its node, in order.
pub fn fragments(instance: &Instance, owner: &Owner, peers: &[StorageAddress]) -> Vec<FragmentSpec> {
    let count = instance.nodes.len() as u64;
    let spec = |index| FragmentSpec {
        instance: instance.id.clone(),
        index,
        capacity_bytes: instance.capacity_bytes / count.max(1),
        volume: instance.volume,
        key: instance.key.clone(),
        peers: peers.to_vec(),
        namespaces: instance.access_modes.iter().map(|mode| namespace_spec(instance, *mode, owner)).collect(),
    };
    (0u32..).zip(&instance.nodes).map(|(index, _)| spec(index)).collect()
}

fn namespace_spec(instance: &Instance, mode: AccessMode, owner: &Owner) -> NamespaceSpec {
    NamespaceSpec {
        id: number(mode),
        layout: layout(instance, mode),
        home: HOME,
        owner: owner.clone(),
        mode: ROOT_MODE,
    }
}

/// A namespace's number says its mode, whichever modes an instance has.
fn number(mode: AccessMode) -> u32 {
    match mode {
        AccessMode::Striped => 0,
        AccessMode::Private => 1,
    }
}

fn layout(instance: &Instance, mode: AccessMode) -> Layout {
    let fragments = u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX);
    match mode {
        AccessMode::Striped => Layout::striped(fragments),
        AccessMode::Private => Layout::whole_files(fragments),
    }
}
