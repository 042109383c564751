//! What a shard is opened with in tests.

use std::path::Path;
use std::sync::Arc;

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use wire::control::{Owner, VolumeKind};
use wire::data::hello::Key;
use wire::node::{FragmentSpec, NamespaceSpec, StorageAddress};

use crate::integrity::log::Place;
use crate::objects::Objects;
use crate::objects::space::Space;
use crate::peers::Peers;
use crate::terms::Terms;
use crate::verifier::Verifier;

/// Whose the namespace is.
pub const OWNER: Owner = Owner { uid: 7, gid: 8 };

/// The parts of a home shard, without its log.
pub struct Parts {
    pub namespace: NamespaceSpec,
    pub objects: Arc<Objects>,
    pub peers: Arc<Peers>,
}

impl Parts {
    /// For a namespace of so many fragments, with the objects of this one in the folder `fragment`.
    pub fn new(fragment: &Path, fragments: u32) -> Parts {
        Parts::among(fragment, fragments, Vec::new(), wire::node::GRACE_MS)
    }

    /// The same beside the other fragments at these addresses, without a copy of its log.
    pub fn among(fragment: &Path, fragments: u32, peers: Vec<StorageAddress>, grace_ms: u64) -> Parts {
        let namespace = NamespaceSpec {
            id: 0,
            layout: Layout::striped(fragments),
            home: FragmentIndex(0),
            owner: OWNER,
            mode: 0o700,
        };
        let root = fragment.join("objects");
        std::fs::create_dir_all(&root).unwrap();
        let verifier = Arc::new(Verifier::open(fragment, std::slice::from_ref(&root)).unwrap());
        let seals = Place { path: fragment.join("seals"), owner: "a test".into() };
        let objects = Objects::open(root, seals, Arc::new(Space::counted(1 << 30)), verifier).unwrap();
        let spec = FragmentSpec {
            instance: InstanceId::literal("i1"),
            index: FragmentIndex(0),
            capacity_bytes: 1 << 30,
            volume: VolumeKind::Directory,
            key: "00".repeat(32),
            peers,
            namespaces: vec![namespace.clone()],
            grace_ms,
            missing: wire::node::Missing::Made,
            ..FragmentSpec::default()
        };
        let terms = Terms::open(fragment, spec.index, spec.term).unwrap();
        let peers = Peers::new(&spec, 0, Key::from_hex(&spec.key).unwrap(), &terms).without_copy();
        Parts { namespace, objects: Arc::new(objects), peers: Arc::new(peers) }
    }
}
