//! From an instance's row to what storage nodes and clients are told of it.
//!
//! **Invariant:** the same row gives the same specification, so that a repeated request is the same request.

use model::phase::AccessMode;
use model::stripe::Layout;
use model::{FragmentIndex, NodeName, Token};
use wire::control::{ApiError, Owner};
use wire::data::credential::{Capability, Credential};
use wire::data::hello::Key;
use wire::node::{
    FragmentSpec, GRACE_MS, Missing, NamespaceSpec, NamespaceTarget, StageSpec, StorageAddress,
};
use wire::ticket;

use crate::app::App;
use crate::site::Site;
use crate::state::instances::Instance;

/// The fragment whose node keeps a namespace's metadata.
const HOME: FragmentIndex = FragmentIndex(0);

/// The number of the namespace that every node shares.
const STRIPED: u32 = 0;

/// The number of the private namespace where there is one compute node only.
const PRIVATE: u32 = 1;

/// An instance, and what is needed of its session to describe it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    /// The session that it belongs to.
    pub token: Token,
    /// The instance.
    pub instance: Instance,
    /// Whose its roots are.
    pub owner: Owner,
    /// Permission bits of its roots.
    pub root_mode: u32,
    /// The private namespaces of compute nodes.
    pub private: Vec<(NodeName, u32)>,
}

/// Where the data paths of the instance's nodes listen, in order. Starts the nodes that do not run.
///
/// # Errors
/// A node does not come up.
pub(crate) async fn addresses<S: Site>(
    app: &App<S>,
    instance: &Instance,
) -> Result<Vec<StorageAddress>, ApiError> {
    app.site.ensure_nodes(&instance.nodes).await
}

/// The same addresses as every process can use them. The unix sockets of other hosts are not there; and over those of
/// the same host files would be handed to the kernel, whose writers cannot be fenced at the end of a job.
pub(crate) fn usable(site: &impl Site, addresses: &[StorageAddress]) -> Vec<StorageAddress> {
    let here = site.cluster().is_none();
    let usable = |address: &StorageAddress| StorageAddress {
        unix: address.unix.clone().filter(|_| here),
        ..address.clone()
    };
    addresses.iter().map(usable).collect()
}

/// A namespace for a client on `node`, without a credential.
pub(crate) fn namespace(
    site: &impl Site,
    of: &Described,
    mode: AccessMode,
    node: &NodeName,
    nodes: Vec<StorageAddress>,
) -> NamespaceTarget {
    let number = match mode {
        AccessMode::Striped => STRIPED,
        AccessMode::Private => {
            of.private.iter().find(|(owner, _)| owner == node).map_or(PRIVATE, |(_, number)| *number)
        }
    };
    NamespaceTarget {
        instance: of.instance.id.clone(),
        namespace: number,
        credential: None,
        layout: layout(&of.instance, mode),
        home: home(&of.instance, number),
        nodes,
        grace_ms: grace_ms(site),
    }
}

/// The same for a client that may do this.
pub(crate) fn with_credential(
    target: NamespaceTarget,
    instance: &Instance,
    capability: Capability,
) -> NamespaceTarget {
    let credential = Key::from_hex(&instance.key).map(|key| Credential::derive(&key, capability));
    NamespaceTarget { credential, ..target }
}

/// Every fragment for its node, in order, as it is where it was made.
pub(crate) fn fragments(site: &impl Site, of: &Described, peers: &[StorageAddress]) -> Vec<FragmentSpec> {
    let instance = &of.instance;
    let count = instance.nodes.len() as u64;
    let spec = |index| FragmentSpec {
        instance: instance.id.clone(),
        index,
        capacity_bytes: instance.capacity_bytes / count.max(1),
        volume: instance.volume,
        key: instance.key.clone(),
        other_key: instance.other_key.clone(),
        key_step: instance.key_step,
        stage_verifier: Key::from_hex(&instance.stage_key)
            .map(|key| ticket::verifier(&key))
            .unwrap_or_default(),
        peers: usable(site, peers),
        namespaces: namespaces(of),
        grace_ms: grace_ms(site),
        behaviour: instance.behaviour.of_fragments(),
        missing: Missing::Refused,
        witnessed: is_witnessed(site, instance),
        term: 0,
    };
    FragmentIndex::of_each(&instance.nodes).map(|(index, _)| spec(index)).collect()
}

/// Whether its parts may be replaced, by others or from their mirrors: they go on without copies only when control
/// knows.
pub(crate) fn is_witnessed(site: &impl Site, instance: &Instance) -> bool {
    instance.nodes.len() > 1 && (instance.is_mirrored() || site.cluster().is_some())
}

/// The namespaces whose metadata is on the fragment `place`.
pub(crate) fn homes(site: &impl Site, of: &Described, place: FragmentIndex) -> Vec<u32> {
    let specs = fragments(site, of, &[]);
    let namespaces = specs.into_iter().next().map(|spec| spec.namespaces).unwrap_or_default();
    namespaces.iter().filter(|namespace| namespace.home == place).map(|namespace| namespace.id).collect()
}

/// Lets the node that coordinates a stage of this instance have its other nodes help.
pub(crate) fn with_ticket(instance: &Instance, stage: StageSpec) -> StageSpec {
    let ticket = Key::from_hex(&instance.stage_key).map(|key| ticket::issue(&key, &stage));
    StageSpec { ticket: ticket.unwrap_or_default(), ..stage }
}

fn grace_ms(site: &impl Site) -> u64 {
    site.cluster().map_or(GRACE_MS, |setting| setting.grace_s.saturating_mul(1000))
}

fn namespaces(of: &Described) -> Vec<NamespaceSpec> {
    let spec = |id, mode| NamespaceSpec {
        id,
        layout: layout(&of.instance, mode),
        home: home(&of.instance, id),
        owner: of.owner.clone(),
        mode: of.root_mode,
    };
    let mut all = Vec::new();
    for mode in &of.instance.access_modes {
        match mode {
            AccessMode::Striped => all.push(spec(STRIPED, *mode)),
            AccessMode::Private => {
                all.push(spec(PRIVATE, *mode));
                all.extend(of.private.iter().map(|(_, number)| spec(*number, *mode)));
            }
        }
    }
    all
}

/// Private namespaces of many nodes have their metadata on many nodes.
fn home(instance: &Instance, number: u32) -> FragmentIndex {
    let count = u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX).max(1);
    match number {
        STRIPED | PRIVATE => HOME,
        number => FragmentIndex(number % count),
    }
}

fn layout(instance: &Instance, mode: AccessMode) -> Layout {
    let fragments = u32::try_from(instance.nodes.len()).unwrap_or(u32::MAX);
    match mode {
        AccessMode::Striped => Layout::striped(fragments),
        AccessMode::Private => Layout::whole_files(fragments),
    }
}
