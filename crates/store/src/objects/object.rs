//! One object, open.

use std::fs::File;
use std::sync::{Arc, Mutex};

use super::syncing::{Pending, Syncable};
use crate::extents::Extents;
use crate::integrity::guard::Guard;

/// One object, open.
#[derive(Debug)]
pub struct Object {
    pub(super) file: File,
    pub(super) pending: Pending,
    /// Kept only where we count.
    pub(super) extents: Mutex<Extents>,
    pub(super) guard: Arc<Guard>,
}

impl Syncable for Object {
    fn file(&self) -> &File {
        &self.file
    }

    fn pending(&self) -> &Pending {
        &self.pending
    }
}
