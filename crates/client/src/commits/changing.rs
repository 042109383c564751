//! Requests under way: what they change is noted when they are answered, and may be done long before.

use std::sync::atomic::{AtomicUsize, Ordering};

use wire::data::Request;
use wire::data::message::Change;

use super::Commits;
use super::syncs::{Syncing, Syncs};

/// Those of one client.
#[derive(Default)]
pub(super) struct UnderWay {
    /// How many change something.
    changing: AtomicUsize,
    pub(super) syncs: Syncs,
}

/// Requests that are under way for as long as this lives.
pub struct Changing<'a> {
    commits: &'a Commits,
    count: usize,
    _syncing: Syncing<'a>,
}

impl Commits {
    /// These are about to be sent, until what they changed, or what a sync was told, is noted.
    pub fn changing<'a>(&self, requests: impl Iterator<Item = &'a Request> + Clone) -> Changing<'_> {
        let is_change = |request: &&Request| !matches!(request.changes(), Change::None);
        let count = requests.clone().filter(is_change).count();
        self.under_way.changing.fetch_add(count, Ordering::SeqCst);
        Changing { commits: self, count, _syncing: self.syncing(requests) }
    }

    /// Whether any is.
    pub fn is_changing(&self) -> bool {
        self.under_way.changing.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.commits.under_way.changing.fetch_sub(self.count, Ordering::SeqCst);
    }
}
