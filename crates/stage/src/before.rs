//! Files that an earlier run of the stage has finished.

use std::path::Path;
use std::sync::Arc;

use wire::data::{Attr, FileKind};

use crate::context::Context;
use crate::entry::Entry;
use crate::journal::{Finished, Inode};
use crate::monitor::Tally;
use crate::run::Run;
use crate::tree::Found;
use crate::verify;

/// A file that is at the target.
#[derive(Clone)]
pub(crate) struct Staged {
    /// Its entry there.
    pub(crate) there: Found,
    /// What it is a copy of, as that was when it was opened: not what was found, where that was replaced meanwhile.
    pub(crate) of: Attr,
    /// What it holds.
    pub(crate) done: Finished,
}

/// What is at the target, if an earlier run finished it and neither side has changed since.
pub(crate) fn already_staged(run: &Arc<Run>, entry: &Entry) -> Option<Staged> {
    let (done, there) = staged_before(run, &entry.source, &entry.target)?;
    let tally = Tally::new(&run.monitor);
    tally.copied(done.size);
    tally.verified(verify::bytes(done.verified, done.size));
    tally.keep();
    run.manifest.file(&entry.target, &done);
    Some(Staged { there, of: entry.source.attr, done })
}

/// What an earlier run noted of a file and its entry at the target, if neither side has changed since.
pub(crate) fn staged_before(context: &Context, source: &Found, target: &Path) -> Option<(Finished, Found)> {
    let done = context.journal.finished(target)?;
    let there = context.sides.target.find(target).ok()?;
    // The very inode, as it was left: what has its size and times may be another's, or changed since.
    let same = there.attr.kind == FileKind::Regular
        && there.attr.size == done.size
        && context.journal.published(target) == Some(Inode::of(&there))
        && (source.attr.size, source.attr.mtime) == (done.size, done.mtime)
        && done.changed.is_none_or(|changed| changed == source.attr.ctime);
    same.then_some((done, there))
}
