//! Fragments of instances that have the id of another: control's database was lost, and its counter began anew.
//!
//! **Invariant:** who asked for a fragment and has nothing in common with the one that is here is told so, and does not
//! get it removed.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use model::InstanceId;
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::FragmentSpec;

use super::Server;
use crate::fragment::FragmentError;
use crate::fragment::specification;

/// Ids that control has used last for instances that have nothing here: others of the same ids have. A file beside the
/// specification of what is here says so to later lives of the node.
#[derive(Debug, Default)]
pub(super) struct Foreign(HashSet<InstanceId>);

impl Foreign {
    /// Whether what is in `folder` of this id is of another instance than control means.
    ///
    /// # Errors
    /// It cannot be told.
    pub(super) fn has(&self, instance: &InstanceId, folder: &Path) -> Result<bool, FragmentError> {
        let marked = || disk::exists(&mark(folder));
        let unknown = |cause| FragmentError::Io { operation: "look for", path: mark(folder), cause };
        Ok(self.0.contains(instance) || marked().map_err(unknown)?)
    }

    fn note(&mut self, instance: &InstanceId, folder: &Path) -> io::Result<()> {
        self.0.insert(instance.to_owned());
        if disk::exists(&mark(folder))? { Ok(()) } else { disk::replace(&mark(folder), b"") }
    }

    fn forget(&mut self, instance: &InstanceId, folder: &Path) -> io::Result<()> {
        disk::remove_file(&mark(folder))?;
        self.0.remove(instance);
        Ok(())
    }
}

fn mark(folder: &Path) -> PathBuf {
    folder.join("of-another")
}

impl Server {
    /// Whether what is here of the instance's id, if anything is, is a fragment of that instance.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check_ours(&self, foreign: &mut Foreign, spec: &FragmentSpec) -> Result<(), ApiError> {
        let folder = self.folder(&spec.instance)?;
        // It has the present keys also where the fragment was opened with others. One that cannot be read is served
        // with what it said, or cannot be served and says so itself.
        let kept = specification::read(&folder).ok().flatten();
        let served = || self.fragment(&spec.instance).map(|fragment| fragment.spec().is_of_instance_of(spec));
        let is_ours = kept.map(|kept| kept.is_of_instance_of(spec)).or_else(served);
        if is_ours.unwrap_or(true) {
            return foreign.forget(&spec.instance, &folder).map_err(|cause| {
                let error = FragmentError::Io { operation: "remove", path: mark(&folder), cause };
                self.cannot(ErrorCode::FragmentNotCreated, "use", &spec.instance, &error)
            });
        }
        if let Err(error) = foreign.note(&spec.instance, &folder) {
            tracing::warn!(instance = ?spec.instance, %error, "cannot note that a fragment is of another instance");
        }
        Err(self.of_another(&spec.instance))
    }

    fn of_another(&self, instance: &InstanceId) -> ApiError {
        let folder = self.root.join(instance);
        ApiError {
            code: ErrorCode::FragmentOfAnother,
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
