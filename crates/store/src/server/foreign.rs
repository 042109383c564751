//! Fragments of instances that have the id of another: control's database was lost, and its counter began anew.
//!
//! **Invariant:** who asked for a fragment and has not the key of the one that is here is told so, and does not get it
//! removed.

use std::collections::HashSet;

use wire::control::{ApiError, Blame};
use wire::node::{FRAGMENT_OF_ANOTHER, FragmentSpec};

use super::Server;
use crate::fragment::specification;

/// Ids that control has used last for instances that have nothing here: others of the same ids have.
#[derive(Debug, Default)]
pub(super) struct Foreign(HashSet<String>);

impl Foreign {
    /// Whether what is here of this id is of another instance than control means.
    pub(super) fn has(&self, instance: &str) -> bool {
        self.0.contains(instance)
    }
}

impl Server {
    /// Whether what is here of the instance's id, if anything is, is a fragment of that instance.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check_ours(&self, foreign: &mut Foreign, spec: &FragmentSpec) -> Result<(), ApiError> {
        let served = self.fragment(&spec.instance).map(|fragment| fragment.spec().key.clone());
        // Of one that cannot be served, and cannot tell, it says so itself.
        let kept = || Some(specification::read(&self.folder(&spec.instance).ok()?).ok()??.key);
        if served.or_else(kept).is_none_or(|key| key == spec.key) {
            foreign.0.remove(&spec.instance);
            return Ok(());
        }
        foreign.0.insert(spec.instance.clone());
        Err(self.of_another(&spec.instance))
    }

    fn of_another(&self, instance: &str) -> ApiError {
        let folder = self.root.join(instance);
        ApiError {
            code: FRAGMENT_OF_ANOTHER.into(),
            blame: Blame::Site,
            message: format!(
                "node {} has a part of another buffer with the id {instance}, in {}: it has another key, as when \
                 control's database was lost and made anew",
                self.node,
                folder.display()
            ),
            advice: "where nobody needs it, stop the node, remove that folder, and start the node again"
                .into(),
        }
    }
}
