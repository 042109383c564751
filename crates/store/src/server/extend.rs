//! Namespaces that control adds to a fragment that is served.
//!
//! **Invariant:** what the specification names is there, at every start.

use std::path::Path;

use wire::control::{ApiError, ErrorCode};
use wire::node::FragmentSpec;

use super::Server;
use crate::fragment::{Fragment, FragmentError, create, specification};

impl Server {
    /// Adds namespaces to a fragment that is served: made first, then kept, so that what a client was told of is there
    /// after a restart, and what the specification names is there always.
    pub(super) fn extend(
        &self,
        folder: &Path,
        fragment: &Fragment,
        spec: &FragmentSpec,
    ) -> Result<(), ApiError> {
        let is_new = |id: u32| fragment.namespace(id).is_none();
        if !spec.namespaces.iter().any(|namespace| is_new(namespace.id)) {
            return Ok(());
        }
        self.try_extend(folder, fragment, spec)
            .map_err(|error| self.cannot(ErrorCode::NamespaceNotAdded, "extend", &spec.instance, &error))
    }

    fn try_extend(
        &self,
        folder: &Path,
        fragment: &Fragment,
        spec: &FragmentSpec,
    ) -> Result<(), FragmentError> {
        let path = specification::path_of(folder);
        let kept = specification::read(folder)?.ok_or(FragmentError::NoSpecification { path })?;
        let mut namespaces = kept.namespaces.clone();
        for namespace in &spec.namespaces {
            if namespaces.iter().all(|known| known.id != namespace.id) {
                create::namespace(folder, fragment.spec(), namespace)?;
                namespaces.push(namespace.clone());
            }
        }
        // The keys may be others than those that it was opened with.
        let more = FragmentSpec { namespaces, ..kept };
        specification::write(folder, &more)?;
        fragment.add(&more.namespaces)
    }
}
