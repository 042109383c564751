//! What the nodes of a site in memory say of what they have.

use std::path::Path;

use model::InstanceId;
use wire::node::{FragmentSpec, FragmentStatus, LocalSpec, LocalStatus, MountSpec, MountStatus};

/// What a node says of a fragment.
pub(super) fn status(instance: &InstanceId, spec: &FragmentSpec) -> FragmentStatus {
    FragmentStatus {
        instance: instance.to_owned(),
        index: spec.index,
        capacity_bytes: spec.capacity_bytes,
        key_step: spec.key_step,
        ..FragmentStatus::default()
    }
}

/// What it says of a private volume.
pub(super) fn local_status(spec: &LocalSpec, released: bool) -> LocalStatus {
    LocalStatus {
        id: spec.id.clone(),
        path: Path::new("/local").join(&spec.user),
        capacity_bytes: spec.capacity_bytes.unwrap_or_default(),
        released,
        kept: None,
    }
}

/// What it says of a mount.
pub(super) fn mounted(spec: &MountSpec, interruptions: u32) -> MountStatus {
    MountStatus {
        id: spec.id.clone(),
        mountpoint: spec.mountpoint.clone(),
        mounted: true,
        pid: Some(1),
        interruptions,
        error: None,
    }
}
