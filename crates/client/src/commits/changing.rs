//! Requests under way: what they change is noted when they are answered, and may be done long before.

use std::sync::atomic::Ordering;

use wire::data::Request;
use wire::data::message::Change;

use super::Commits;

/// Requests that are under way for as long as this lives.
pub struct Changing<'a>(&'a Commits, usize);

impl Commits {
    /// These are about to be sent, until what they changed is noted.
    pub fn changing<'a>(&self, requests: impl Iterator<Item = &'a Request>) -> Changing<'_> {
        let count = requests.filter(|request| !matches!(request.changes(), Change::None)).count();
        self.changing.fetch_add(count, Ordering::AcqRel);
        Changing(self, count)
    }

    /// Whether any is.
    pub(super) fn is_changing(&self) -> bool {
        self.changing.load(Ordering::Acquire) > 0
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.changing.fetch_sub(self.1, Ordering::AcqRel);
    }
}
