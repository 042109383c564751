//! What one attempt at a file adds to the counters of its stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::Monitor;

/// The bytes that one attempt at one file has counted; taken back on drop unless the attempt was kept.
pub(crate) struct Tally {
    monitor: Arc<Monitor>,
    copied: AtomicU64,
    verified: AtomicU64,
    kept: AtomicBool,
}

impl Tally {
    pub(crate) fn new(monitor: &Arc<Monitor>) -> Tally {
        Tally {
            monitor: monitor.clone(),
            copied: AtomicU64::new(0),
            verified: AtomicU64::new(0),
            kept: AtomicBool::new(false),
        }
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.copied.fetch_add(bytes, Ordering::Relaxed);
        self.monitor.bytes_done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn verified(&self, bytes: u64) {
        self.verified.fetch_add(bytes, Ordering::Relaxed);
        self.monitor.bytes_verified.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn keep(&self) {
        self.kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        if !self.kept.load(Ordering::Relaxed) {
            self.monitor.bytes_done.fetch_sub(self.copied.load(Ordering::Relaxed), Ordering::Relaxed);
            self.monitor.bytes_verified.fetch_sub(self.verified.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}
