//! How one fragment of the node stands.

use std::sync::Arc;

use wire::node::FragmentStatus;

use crate::fragment::Fragment;

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
