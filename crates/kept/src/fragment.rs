//! The specification of a fragment, `spec.json`.

use model::directive::FragmentBehaviour;
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use std::path::PathBuf;
use wire::control::Owner;
use wire::node::{FragmentSpec, Missing, NamespaceSpec, StorageAddress, VolumeKind};

form! {
    struct FragmentForm of FragmentSpec {
        instance: InstanceId,
        index: FragmentIndex,
        capacity_bytes: u64,
        volume: VolumeKind,
        key: String,
        #[serde(default)]
        stage_verifier: String,
        peers: Vec<StorageAddress>,
        namespaces: Vec<NamespaceSpec>,
        #[serde(default = "first_grace_ms")]
        grace_ms: u64,
        #[serde(flatten)]
        behaviour: FragmentBehaviour,
        #[serde(default)]
        missing: Missing,
        #[serde(default)]
        witnessed: bool,
        #[serde(default)]
        term: u32,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        other_key: String,
        #[serde(default, skip_serializing_if = "is_first")]
        key_step: u64,
    }
}

/// Before the first change of its keys a text is as older releases wrote it.
fn is_first(key_step: &u64) -> bool {
    *key_step == 0
}

fn first_grace_ms() -> u64 {
    120_000
}

form! {
    #[serde(rename_all = "snake_case")]
    enum VolumeForm of VolumeKind {
        Directory,
        Image,
    }
}

form! {
    #[derive(Default)]
    #[serde(rename_all = "kebab-case")]
    enum MissingForm of Missing {
        #[default]
        Refused,
        Made,
        Restored,
        NamesRestored,
        NamesAccepted,
    }
}

form! {
    struct AddressForm of StorageAddress {
        node: NodeName,
        tcp: String,
        unix: Option<PathBuf>,
    }
}

form! {
    struct NamespaceForm of NamespaceSpec {
        id: u32,
        layout: Layout,
        home: FragmentIndex,
        owner: Owner,
        mode: u32,
    }
}

form! {
    struct LayoutForm of Layout {
        fragments: u32,
        width: u32,
        stripe_size_bytes: u32,
    }
}

form! {
    struct OwnerForm of Owner {
        uid: u32,
        gid: u32,
    }
}
