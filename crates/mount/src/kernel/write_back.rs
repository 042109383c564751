//! Has the kernel write back what mappings stored, before a mount ends under them.
//!
//! A handle that is closed writes its pages back first, and so does a mapping that ends. Who outlives the mount does
//! neither: what it stored would go with the kernel's pages, although the store returned long ago.
//!
//! **Invariant:** who runs this serves the mount meanwhile: the kernel waits for the answers to what it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuse::notify::Notifier;

use crate::ledger::Ledger;

/// The kernel's pages of all that is open in a mount.
#[derive(Clone, Debug)]
pub struct WriteBack {
    pub(super) notifier: Notifier,
    pub(super) ledger: Arc<Ledger>,
    pub(super) refused: Refused,
}

/// How many writes of pages failed.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused(Arc<AtomicU64>);

impl Refused {
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn so_far(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WriteBack {
    /// What is open in the mount.
    pub fn ledger(&self) -> Arc<Ledger> {
        Arc::clone(&self.ledger)
    }

    /// Returns when everything that mappings had stored before is on its storage nodes. Waits as long as they do.
    ///
    /// # Errors
    /// What could not be written back, in words.
    pub fn run(&self) -> Result<(), String> {
        let before = self.refused.so_far();
        for (ino, ..) in self.ledger.held().opens {
            if let Err(error) = self.notifier.inode_changed(ino.into(), 0, 0) {
                return Err(format!("the kernel does not write back the pages of inode {ino}: {error}"));
            }
        }
        match self.refused.so_far() - before {
            0 => Ok(()),
            count => Err(format!("storage nodes refused {count} writes of mapped pages")),
        }
    }
}
