//! A folder of the target while its entries are staged. It is finished (mode, times, fsync) when its last entry is:
//! earlier, a read-only mode would keep its entries out and each new name would change its times.
//!
//! **Invariant:** who lets go of a folder last finishes it.

use std::sync::Arc;

use crate::context::Context;
use crate::entry::Folder;
use crate::fault::{Fault, Tried};
use crate::metadata;

/// Records that a folder could not be staged whole: it is one entry, however much of it fails.
pub(crate) fn fail(context: &Context, folder: &Folder, fault: &Fault) {
    if folder.note_failure() {
        context.fail(fault);
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
        return fail(context, folder, &fault);
    }
    match context.retrying(|| settle(context, folder)) {
        Err(fault) => fail(context, folder, &fault),
        Ok(()) if folder.counted && !folder.has_failed() => {
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
