//! A folder of the target while its entries are staged. It is finished (mode, times, fsync) when its last entry is:
//! earlier, a read-only mode would keep its entries out and each new name would change its times.
//!
//! **Invariant:** who lets go of a folder last finishes it.

use std::sync::{Arc, MutexGuard};

use model::phase::Direction;
use wire::data::SetAttr;

use crate::context::Context;
use crate::entry::Folder;
use crate::fault::{Fault, Tried};
use crate::tree::Found;
use crate::{metadata, times};

/// Permission bits of a folder until its contents are there.
pub(crate) const MODE_MEANWHILE: u32 = 0o700;

/// Permission bits of folders that nothing was said about.
pub(crate) const FOLDER_MODE: u32 = 0o755;

/// Those of the root of a job's buffer, as control makes it. It keeps others out of a mount, and says nothing of a
/// copy of what is in it.
const ROOT_MODE: u32 = 0o700;

/// The named folder `source` with the metadata that its copy is to have. A root whose mode the job changed keeps it.
pub(crate) fn as_copied(context: &Context, source: &Found) -> Found {
    let mut copied = source.clone();
    let is_root = context.sides.direction == Direction::Out && source.path.as_os_str().is_empty();
    if is_root && source.attr.mode == ROOT_MODE {
        copied.attr.mode = FOLDER_MODE;
    }
    copied
}

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
        if context.journal.has_left_below(&folder.target.path) {
            // To take that away changes its times, and may need its mode.
            return held(context).push(folder);
        }
        finish(context, &folder);
        last = folder.parent.and_then(Arc::into_inner);
    }
}

/// Finishes the folders that were held for what is taken away at the end, and then their parents.
pub(crate) fn release_held(context: &Context) {
    loop {
        let Some(folder) = held(context).pop() else { return };
        finish(context, &folder);
        held(context).extend(folder.parent.and_then(Arc::into_inner));
    }
}

fn held(context: &Context) -> MutexGuard<'_, Vec<Folder>> {
    context.shared.held.lock().expect("no thread panics with the lock")
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
        Some(source) => {
            metadata::keep(context, source, &folder.target, &folder.target.path)?;
            if let Ok(there) = context.sides.target.find(&folder.target.path) {
                times::compare(context, &there, source.attr.mtime);
            }
            Ok(())
        }
        None => Ok(()),
    }
}

/// Lets us make entries in a folder whose mode an earlier run has already made read-only. It gets its mode again when
/// it is finished. A refusal shows when the first entry is made.
pub(crate) fn make_usable(context: &Context, folder: &Found) {
    let mode = folder.attr.mode | MODE_MEANWHILE;
    if mode != folder.attr.mode {
        let _ = context.sides.target.set(folder, &SetAttr { mode: Some(mode), ..SetAttr::default() });
    }
}
