//! What is said of a fragment that somebody asks for and this node does not have: control lists it, so its folder is
//! lost, or on a file system that is not mounted.
//!
//! **Invariant:** the log says so once of each instance, and never of one that was removed as control asked.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use model::InstanceId;
use wire::control::{ApiError, Blame, ErrorCode};

use super::{POISON, Server};

/// So many instances are remembered: whoever asks need not have proved anything.
const REMEMBERED_MAX: usize = 1024;

/// Of a new instance another node may ask for the part here before control has asked for that to be made.
const MADE_WITHIN: Duration = Duration::from_secs(5);

/// Instances that are asked for and are not here: since when, and whether nothing is to be said of them any more.
#[derive(Default)]
pub(super) struct Missed(Mutex<BTreeMap<InstanceId, (Instant, bool)>>);

impl Missed {
    /// One is asked for. Returns whether that is to be said now; it is not before it was asked for all this time.
    fn ask(&self, instance: &InstanceId, now: Instant, patience: Duration) -> bool {
        let mut missed = self.0.lock().expect(POISON);
        if missed.len() >= REMEMBERED_MAX && !missed.contains_key(instance) {
            return false;
        }
        let (since, told) = missed.entry(instance.to_owned()).or_insert((now, false));
        now.duration_since(*since) >= patience && !std::mem::replace(told, true)
    }

    /// It was removed: who used it may ask for it once more, and nothing is to be said of that.
    pub fn removed(&self, instance: &InstanceId) {
        self.0.lock().expect(POISON).insert(instance.to_owned(), (Instant::now(), true));
    }

    /// It is here.
    pub fn made(&self, instance: &InstanceId) {
        self.0.lock().expect(POISON).remove(instance);
    }
}

impl Server {
    /// Somebody asks for a part of an instance on the data path, and is refused.
    pub(crate) fn miss(&self, instance: &InstanceId) {
        self.miss_after(instance, MADE_WITHIN);
    }

    fn miss_after(&self, instance: &InstanceId, patience: Duration) {
        let is_missed = self.folder(instance).is_ok() && self.status_of(instance).is_none();
        if is_missed && self.missed.ask(instance, Instant::now(), patience) {
            tracing::error!(
                ?instance,
                folder = %self.root.display(),
                "a part of this instance is asked for, and is not among the fragments here: see whether the folder's file system is \
                 mounted"
            );
        }
    }

    /// Why control cannot be told of an instance's part that is not served, and about which there is nothing else to
    /// say.
    pub(super) fn lacking(&self, instance: &InstanceId) -> ApiError {
        // Control knows what it has had made.
        self.miss_after(instance, Duration::ZERO);
        ApiError {
            code: ErrorCode::NoSuchFragment,
            blame: Blame::Site,
            message: format!("node {} has no part of {instance} in {}", self.node, self.root.display()),
            advice:
                "see whether the file system of that folder is mounted, mount it, and start the node again"
                    .into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_stays_away_is_told_once_and_one_that_is_made_or_removed_never() {
        let (missed, begin) = (Missed::default(), Instant::now());
        let ask = |instance: &InstanceId, after| missed.ask(instance, begin + after, MADE_WITHIN);
        let (at_once, later) = (Duration::ZERO, MADE_WITHIN * 2);
        assert!(!ask(&InstanceId::literal("i1"), at_once), "it may be made in a moment");
        assert!(ask(&InstanceId::literal("i1"), later));
        assert!(!ask(&InstanceId::literal("i1"), later));
        assert!(!ask(&InstanceId::literal("i2"), at_once));
        missed.made(&InstanceId::literal("i2"));
        assert!(!ask(&InstanceId::literal("i2"), later));
        missed.removed(&InstanceId::literal("i3"));
        assert!(!ask(&InstanceId::literal("i3"), later * 2));
        assert!(
            missed.ask(&InstanceId::literal("i4"), begin, Duration::ZERO),
            "control knows what there should be"
        );
    }
}
