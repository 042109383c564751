//! The metadata of the namespaces that have their home in a fragment: where it is, and how it is kept.

use std::path::Path;
use std::sync::PoisonError;

use model::NodeName;
use wire::node::{CopyStatus, FragmentSpec};

use super::folders::places;
use super::{Fragment, FragmentError, NamespacePart};
use crate::verifier::Verifier;

impl Fragment {
    /// How the metadata that has its home here is kept on another node.
    pub(super) fn copies(&self) -> Vec<CopyStatus> {
        let home = self
            .spec
            .peers
            .get(self.spec.index.place())
            .map_or_else(NodeName::default, |own| own.node.clone());
        let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
        let copy_of = |(id, namespace): (&u32, &NamespacePart)| {
            let behind = namespace.shard.as_ref()?.copy()?;
            Some(CopyStatus {
                namespace: *id,
                home: home.clone(),
                node: behind.node,
                whole: behind.whole,
                confirmed: behind.confirmed,
                alone: behind.alone,
                accepted: behind.accepted,
                behind_bytes: behind.bytes,
                error: behind.error,
                doubt: behind.doubt,
            })
        };
        let mut copies: Vec<CopyStatus> = namespaces.iter().filter_map(copy_of).collect();
        copies.sort_by_key(|copy| copy.namespace);
        copies
    }
}

/// What was answered and not synced may be lacking in the fragment below `folder`, which is not served: its clients
/// are told when it is.
///
/// # Errors
/// [`FragmentError::Io`].
pub fn may_have_lost(folder: &Path, spec: &FragmentSpec) -> Result<(), FragmentError> {
    let opened = Verifier::open(folder, &places(folder, spec.volume));
    opened
        .and_then(|verifier| verifier.draw_anew())
        .map_err(|cause| FragmentError::io("keep the commit verifier in", folder, cause))
}
