//! A folder of the target while its entries are staged. It is finished (mode, times, fsync) when its last entry is:
//! earlier, a read-only mode would keep its entries out and each new name would change its times.
//!
//! **Invariant:** every planned entry holds its folder and every folder its parent; who lets go of a folder last
//! finishes it. So folders in memory are those with entries that are not done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::metadata;
use crate::tree::Found;

pub(crate) struct Folder {
    /// Whose metadata it gets; `None` for a folder that was there before and that nobody asked to change.
    pub(crate) source: Option<Found>,
    pub(crate) target: Found,
    pub(crate) parent: Option<Arc<Folder>>,
    /// It is one of the entries that the stage counts.
    pub(crate) counted: bool,
    failed: AtomicBool,
}

impl Folder {
    /// A folder that was there before.
    pub(crate) fn existing(target: Found) -> Arc<Folder> {
        Arc::new(Folder {
            source: None,
            target,
            parent: None,
            counted: false,
            failed: AtomicBool::new(false),
        })
    }

    /// The destination folder itself, made by this stage.
    pub(crate) fn top(source: Found, target: Found) -> Arc<Folder> {
        let source = Some(source);
        Arc::new(Folder { source, target, parent: None, counted: false, failed: AtomicBool::new(false) })
    }

    /// A folder found below the source folder.
    pub(crate) fn below(parent: &Arc<Folder>, source: Found, target: Found) -> Arc<Folder> {
        let (source, parent) = (Some(source), Some(parent.clone()));
        Arc::new(Folder { source, target, parent, counted: true, failed: AtomicBool::new(false) })
    }

    /// Records that the folder could not be staged whole.
    pub(crate) fn fail(&self, context: &Context, fault: &Fault) {
        // A folder is one entry, however much of it fails.
        if !self.failed.swap(true, Ordering::Relaxed) {
            context.fail(fault);
        }
    }
}

/// Lets go of a folder; finishes it, and then perhaps its parents, if nobody else holds it.
pub(crate) fn release(context: &Context, folder: Arc<Folder>) {
    let mut last = Arc::into_inner(folder);
    while let Some(folder) = last {
        finish(context, &folder);
        last = folder.parent.and_then(Arc::into_inner);
    }
}

fn finish(context: &Context, folder: &Folder) {
    if context.monitor.is_stopping() {
        return;
    }
    // Before the metadata: a mode without read permission would keep us from opening it. Only once: what a sync that
    // failed was to bring to the disk, the next does not.
    let target = &*context.sides.target;
    let path = &folder.target.path;
    if let Err(fault) = target.sync_folder(path).tried(target, path, "fsync folder") {
        context.doubt_names(&fault);
        return folder.fail(context, &fault);
    }
    match context.retrying(|| settle(context, folder)) {
        Err(fault) => folder.fail(context, &fault),
        Ok(()) if folder.counted && !folder.failed.load(Ordering::Relaxed) => {
            context.manifest.entry(&folder.target.path, folder.target.attr.kind);
            context.monitor.done();
        }
        Ok(()) => {}
    }
}

fn settle(context: &Context, folder: &Folder) -> Result<(), Fault> {
    match &folder.source {
        Some(source) => metadata::keep(context, source, &folder.target, &folder.target.path),
        None => Ok(()),
    }
}
