//! One regular file, from the source to its name at the target.
//!
//! ```text
//! open -> make -> copy -> fsync -> source unchanged? -> read back, compare -> close -> owner, xattrs, mode, times
//!      -> rename -> journal                              (the folder's fsync comes when all its entries are done)
//! ```
//!
//! **Invariant:** a file is journalled and counted as done only after what the target gives back was compared with
//! what was read from the source, as far as the stage's policy says. A step that fails leaves nothing at the target; what had the name before is still
//! there (on the PFS; in a buffer the name is taken at once).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::data::{Attr, FileKind};
use wire::node::Verify;

use crate::content::{self, Opened, Sums};
use crate::context::Context;
use crate::entry::Entry;
use crate::fault::{Cause, Fault, Tried};
use crate::journal::Finished;
use crate::metadata;
use crate::monitor::Tally;
use crate::resume::{self, Begun};
use crate::tree::Found;
use crate::verify;

/// Stages a file; gives its entry at the target.
pub(crate) fn stage(context: &Arc<Context>, entry: &Entry) -> Result<Found, Fault> {
    if let Some(there) = already_staged(context, entry) {
        return Ok(there);
    }
    let mut attempts = 0;
    context.retrying(|| {
        attempts += 1;
        attempt(context, entry, attempts)
    })
}

/// The target's entry, if an earlier run finished it and neither side has changed since.
fn already_staged(context: &Arc<Context>, entry: &Entry) -> Option<Found> {
    let done = context.journal.finished(&entry.target)?;
    let there = context.target.find(&entry.target).ok()?;
    let is_as_recorded = |attr: &Attr| (attr.size, attr.mtime) == (done.size, done.mtime);
    let same = there.attr.kind == FileKind::Regular
        && is_as_recorded(&there.attr)
        && is_as_recorded(&entry.source.attr);
    same.then(|| {
        let tally = Tally::new(&context.monitor);
        tally.copied(done.size);
        tally.verified(verify::bytes(done.verified, done.size));
        tally.keep();
        context.manifest.file(&entry.target, &done);
        there
    })
}

fn attempt(context: &Arc<Context>, entry: &Entry, attempts: u32) -> Result<Found, Fault> {
    let (source, before) = open_source(context, entry)?;
    let size = before.attr.size;
    let Begun { made, part, target, chunks } = resume::begin(context, entry, &before)?;
    let tally = Arc::new(Tally::new(&context.monitor));

    let resumed: BTreeSet<usize> = chunks.keys().copied().collect();
    let written = content::copy(context, &source, &target, size, chunks, &tally)?;
    target.file.sync().tried(&*target.tree, &target.path, "fsync")?;
    check_unchanged(&source, &before.attr)?;
    verify(context, target.clone(), &written, resumed, &tally)?;
    target.file.close().tried(&*target.tree, &target.path, "close")?;
    metadata::keep(context, &before, &made, &entry.target)?;
    part.publish(&entry.target)?;

    tally.keep();
    context.no_room.store(false, Ordering::Relaxed);
    let done = Finished {
        size,
        mtime: before.attr.mtime,
        crc32c: written.whole(),
        attempts,
        verified: verify::of_size(context.verify, size),
        finished_ms: now_ms(),
    };
    context.journal.finish(&entry.target, done);
    context.manifest.file(&entry.target, &done);
    Ok(Found { path: entry.target.clone(), ..made })
}

fn open_source(context: &Context, entry: &Entry) -> Result<(Opened, Found), Fault> {
    let (tree, path) = (&context.source, &entry.source.path);
    let file = tree.open(&entry.source).tried(&**tree, path, "open for reading")?;
    let attr = file.attributes().tried(&**tree, path, "look at")?;
    let sparse = file.has_holes(&attr).tried(&**tree, path, "look for holes in")?;
    let opened = Opened { tree: tree.clone(), path: path.clone(), file: Arc::from(file), sparse };
    Ok((opened, Found { attr, ..entry.source.clone() }))
}

fn check_unchanged(source: &Opened, before: &Attr) -> Result<(), Fault> {
    let after = source.file.attributes().tried(&*source.tree, &source.path, "look at")?;
    if (after.size, after.mtime) == (before.size, before.mtime) {
        return Ok(());
    }
    Err(Fault::new(&*source.tree, &source.path, "read", Cause::Changed))
}

/// Compares what the target gives back with what was written, as far as the policy says; chunks that an earlier run
/// wrote in any case, as nobody knows what became of its writes.
fn verify(
    context: &Arc<Context>,
    target: Opened,
    written: &Sums,
    resumed: BTreeSet<usize>,
    tally: &Arc<Tally>,
) -> Result<(), Fault> {
    let (tree, path, size) = (context.target.clone(), target.path.clone(), written.size());
    let attr = target.file.attributes().tried(&*tree, &path, "look at")?;
    if attr.size != size {
        let cause = Cause::WrongSize { expected: size, found: attr.size };
        return Err(Fault::new(&*tree, &path, "verify", cause));
    }
    if verify::of_size(context.verify, size) == Verify::Off && resumed.is_empty() {
        return Ok(());
    }
    target.file.forget_cached().tried(&*tree, &path, "drop the cache of")?;
    let sparse = target.file.has_holes(&attr).tried(&*tree, &path, "look for holes in")?;
    let policy = context.verify;
    let chosen = move |index: usize| verify::includes(policy, size, index) || resumed.contains(&index);
    let found = content::read_back(context, &Opened { sparse, ..target }, written, chosen, tally)?;
    if let Some((expected, found)) = written.first_difference(&found) {
        let cause = Cause::Differs { expected, found };
        return Err(Fault::new(&*tree, &path, "verify", cause));
    }
    Ok(())
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
