//! How one fragment of the node stands.

use std::sync::Arc;

use model::InstanceId;
use wire::node::{FragmentSpec, FragmentStatus};

use super::Server;
use crate::fragment::{Fragment, FragmentError};

pub(super) enum Slot {
    Served(Arc<Fragment>),
    /// It is being started: nobody is served before the node with the copy of its metadata log was asked.
    Starting(FragmentStatus),
    /// It cannot be served; its bytes are untouched.
    Broken(FragmentStatus),
    /// Another node has taken its place: it is not served ever again; its bytes are untouched.
    Replaced(FragmentStatus),
}

impl Slot {
    pub(super) fn status(&self) -> FragmentStatus {
        match self {
            Slot::Served(fragment) => fragment.status(),
            Slot::Starting(status) | Slot::Broken(status) | Slot::Replaced(status) => status.clone(),
        }
    }
}

impl Server {
    /// Shows that a fragment cannot be served. The log says so once, however often it is tried.
    pub(super) fn refuse(&self, status: FragmentStatus, error: &FragmentError) {
        let (instance, why) = (status.instance.clone(), error.to_string());
        let advice = Some(error.advice().into_owned());
        let refused = Slot::Broken(FragmentStatus { error: Some(why.clone()), advice, ..status });
        let before = self.slots().insert(instance.clone(), refused);
        if !matches!(before, Some(Slot::Broken(before)) if before.error.as_ref() == Some(&why)) {
            tracing::error!(
                ?instance,
                error = error as &dyn std::error::Error,
                "cannot serve a fragment; what is on disk is kept as it is"
            );
        }
    }
}

/// The status of a fragment of which nothing is known but its name.
pub(super) fn unknown(instance: InstanceId) -> FragmentStatus {
    FragmentStatus { instance, ..FragmentStatus::default() }
}

/// What is said of a fragment that is not served yet.
pub(super) fn status_of(spec: &FragmentSpec, name: &InstanceId) -> FragmentStatus {
    let (index, capacity_bytes, term) = (spec.index, spec.capacity_bytes, spec.term);
    FragmentStatus { index, capacity_bytes, term, ..unknown(name.clone()) }
}
