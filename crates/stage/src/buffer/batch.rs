//! Files of a buffer that are synced together.

use std::sync::Arc;

use crate::tree::{Batch, Found, Result};
use client::Operations;
use model::Ino;

/// Files of a namespace: its nodes are asked once for all of them.
pub(super) struct BufferBatch<N>(pub(super) Arc<N>);

impl<N: Operations> Batch for BufferBatch<N> {
    fn sync(&self, files: &[&Found]) -> Result<()> {
        let inos: Vec<Ino> = files.iter().map(|file| file.attr.ino).collect();
        self.0.fsync_many(&inos)
    }
}
