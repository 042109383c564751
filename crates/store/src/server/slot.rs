//! How one fragment of the node stands.

use std::sync::Arc;

use model::InstanceId;
use wire::node::{FragmentSpec, FragmentStatus};

use super::{POISON, Server};
use crate::fragment::{Fragment, FragmentError};

pub(super) enum Slot {
    Served(Arc<Fragment>),
    /// It is being started: nobody is served before the node with the copy of its metadata log was asked.
    Starting(FragmentStatus),
    /// It cannot be served; its bytes are untouched.
    Broken(FragmentStatus),
    /// It has a key from before a change: it is not served before control has brought the present one.
    Withheld(FragmentStatus),
    /// Another node has taken its place: it is not served ever again; its bytes are untouched.
    Replaced(FragmentStatus),
}

impl Slot {
    pub(super) fn status(&self) -> FragmentStatus {
        match self {
            Slot::Served(fragment) => fragment.status(),
            Slot::Starting(status)
            | Slot::Broken(status)
            | Slot::Withheld(status)
            | Slot::Replaced(status) => status.clone(),
        }
    }
}

impl Server {
    /// Whether the fragment may well be served soon: it is being started, or cannot be served and is tried again.
    pub(crate) fn may_come(&self, instance: &InstanceId) -> bool {
        match self.fragments.read().expect(POISON).get(instance) {
            Some(Slot::Starting(_)) => true,
            Some(Slot::Broken(status) | Slot::Withheld(status)) => status.retried,
            _ => false,
        }
    }

    /// Shows that a fragment cannot be served. The log says so once, however often it is tried.
    pub(super) fn refuse(&self, status: FragmentStatus, error: &FragmentError) {
        let (instance, why) = (status.instance.clone(), error.to_string());
        let advice = Some(error.advice().into_owned());
        let status = FragmentStatus { error: Some(why.clone()), advice, ..status };
        let refused = match error {
            FragmentError::FormerKey { .. } => Slot::Withheld(FragmentStatus { retried: true, ..status }),
            _ => Slot::Broken(status),
        };
        let before = self.slots().insert(instance.clone(), refused);
        if !matches!(before, Some(Slot::Broken(before) | Slot::Withheld(before)) if before.error.as_ref() == Some(&why))
        {
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
    FragmentStatus {
        index: spec.index,
        capacity_bytes: spec.capacity_bytes,
        term: spec.term,
        key_step: spec.key_step,
        ..unknown(name.clone())
    }
}
