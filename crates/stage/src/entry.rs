//! One entry on its way: what a worker does with what the planner found.

use std::path::PathBuf;
use std::sync::Arc;

use wire::data::FileKind;

use crate::context::Context;
use crate::fault::{Cause, Fault};
use crate::folder::{self, Folder};
use crate::links::{Join, Role};
use crate::tree::Found;
use crate::{regular, special};

/// Anything but a folder.
pub(crate) struct Entry {
    pub(crate) source: Found,
    pub(crate) target: PathBuf,
    pub(crate) folder: Arc<Folder>,
    pub(crate) role: Role,
}

/// Stages one entry, and those that waited for it.
pub(crate) fn stage(context: &Arc<Context>, entry: Entry) {
    context.pace(0);
    if context.monitor.is_stopping() {
        return;
    }
    match entry.role {
        Role::Alone if entry.source.attr.kind == FileKind::Regular => {
            let outcome = regular::stage(context, &entry);
            finish(context, entry, outcome.map(drop));
        }
        Role::Alone => {
            let outcome = special::stage(context, &entry);
            note(context, &entry, &outcome);
            finish(context, entry, outcome);
        }
        Role::First => {
            let outcome = regular::stage(context, &entry);
            let waiting = context.run.links.settle(&entry.source, outcome.as_ref().ok().cloned());
            finish(context, entry, outcome.map(drop));
            waiting.into_iter().for_each(|other| join(context, other));
        }
        Role::Other => join(context, entry),
    }
}

fn join(context: &Arc<Context>, entry: Entry) {
    match context.run.links.join(entry) {
        Join::Link(entry, first) => {
            let outcome = special::link(context, &entry, &first);
            note(context, &entry, &outcome);
            finish(context, entry, outcome);
        }
        Join::FirstNameFailed(entry, first) => {
            let cause = Cause::FirstNameFailed { first };
            let fault = Fault::new(&*context.sides.source, &entry.source.path, "stage", cause);
            finish(context, entry, Err(fault));
        }
        Join::Waits => {}
    }
}

/// Puts what is not copied byte by byte into the manifest.
fn note(context: &Context, entry: &Entry, outcome: &Result<(), Fault>) {
    if outcome.is_ok() {
        context.manifest.entry(&entry.target, entry.source.attr.kind);
    }
}

/// Counts an entry and lets go of its folder.
pub(crate) fn finish(context: &Context, entry: Entry, outcome: Result<(), Fault>) {
    match outcome {
        Ok(()) => context.monitor.done(),
        Err(fault) => context.fail(&fault),
    }
    folder::release(context, entry.folder);
}
