//! What a worker does with one entry that the planner found.

use std::sync::Arc;

use wire::data::FileKind;

use crate::context::Context;
use crate::entry::{Entry, Role};
use crate::fault::{Cause, Fault};
use crate::folder;
use crate::links::{Copied, Join};
use crate::run::Run;
use crate::{orphans, regular, special};

/// Stages one entry, and those that waited for it.
pub(crate) fn stage(run: &Arc<Run>, entry: Entry) {
    run.pace(0);
    if run.monitor.is_stopping() {
        return;
    }
    match entry.role {
        Role::Alone if entry.source.attr.kind == FileKind::Regular => {
            let outcome = regular::stage(run, &entry);
            finish(run, entry, outcome.map(drop));
        }
        Role::Alone => {
            let outcome = special::stage(run, &entry);
            note(run, &entry, &outcome);
            finish(run, entry, outcome);
        }
        Role::First => {
            let outcome = regular::stage(run, &entry);
            let copied = outcome.as_ref().ok().map(|file| Copied { there: file.there.clone(), of: file.of });
            let waiting = run.shared.links.settle(&entry.source, copied);
            finish(run, entry, outcome.map(drop));
            waiting.into_iter().for_each(|other| join(run, other));
        }
        Role::Other => join(run, entry),
    }
}

fn join(run: &Arc<Run>, entry: Entry) {
    match run.shared.links.join(entry) {
        Join::Link(entry, first) if has_another_name(run, &entry, &first) => {
            let outcome = special::link(run, &entry, &first.there);
            // Each new name gives the file another `st_ctime`.
            if outcome.is_ok() {
                let _in_order = run.shared.noting.lock().expect("no thread panics with the lock");
                orphans::note(run, &first.there);
            }
            note(run, &entry, &outcome);
            finish(run, entry, outcome);
        }
        // What has one of the two names is another file now, or another version.
        Join::Link(entry, _) | Join::Alone(entry) => stage(run, Entry { role: Role::Alone, ..entry }),
        Join::FirstNameFailed(entry, first) => {
            let cause = Cause::FirstNameFailed { first };
            let fault = Fault::new(&*run.sides.source, &entry.source.path, "stage", cause);
            finish(run, entry, Err(fault));
        }
        Join::Waits => {}
    }
}

/// Whether the entry's source is at this moment a name of what `first` is a copy of: names are moved meanwhile.
fn has_another_name(context: &Context, entry: &Entry, first: &Copied) -> bool {
    let now = context.sides.source.find(&entry.source.path);
    now.is_ok_and(|now| now.device == entry.source.device && first.is_of(&now.attr))
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
