//! One regular file, from the source to its name at the target.
//!
//! ```text
//! open -> make -> copy -> fsync -> source unchanged? -> read back, compare -> close -> owner, xattrs, mode, times
//!      -> rename -> journal                              (the folder's fsync comes when all its entries are done)
//! ```
//!
//! **Invariant:** a file is journalled and counted as done only after what the target gives back was compared with
//! what was read from the source. A step that fails leaves nothing at the target; what had the name before is still
//! there (on the PFS; in a buffer the name is taken at once).

use std::sync::Arc;

use wire::data::{Attr, FileKind};

use crate::content::{self, Opened};
use crate::context::Context;
use crate::entry::Entry;
use crate::fault::{Cause, Fault, Tried};
use crate::journal::Finished;
use crate::metadata;
use crate::monitor::Tally;
use crate::part::{Part, make_afresh};
use crate::tree::Found;

/// Stages a file; gives its entry at the target.
pub(crate) fn stage(context: &Arc<Context>, entry: &Entry) -> Result<Found, Fault> {
    if let Some(there) = already_staged(context, entry) {
        return Ok(there);
    }
    context.retrying(|| attempt(context, entry)).map(|(there, _)| there)
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
        tally.verified(done.size);
        tally.keep();
        there
    })
}

/// One try, whatever earlier runs did; gives the target's entry and what it holds.
pub(crate) fn attempt(context: &Arc<Context>, entry: &Entry) -> Result<(Found, Finished), Fault> {
    let (source, before) = open_source(context, entry)?;
    let size = before.attr.size;
    let workplace = context.workplace(&entry.target);
    let (made, file) =
        make_afresh(context, (&workplace, &entry.target), "make file", || context.target.create(&workplace))?;
    let part = Part::new(context, workplace);
    // Faults name the file that it is to become.
    let path = entry.target.clone();
    let target = Opened { tree: context.target.clone(), path, file: Arc::from(file), sparse: false };
    let tally = Arc::new(Tally::new(&context.monitor));

    let written = content::copy(context, &source, &target, size, &tally)?;
    target.file.sync().tried(&*target.tree, &target.path, "fsync")?;
    check_unchanged(&source, &before.attr)?;
    verify(context, target.clone(), size, written, &tally)?;
    target.file.close().tried(&*target.tree, &target.path, "close")?;
    metadata::keep(context, &before, &made, &entry.target)?;
    part.publish(&entry.target)?;

    tally.keep();
    let done = Finished { size, mtime: before.attr.mtime, crc32c: written };
    context.journal.finish(&entry.target, done);
    Ok((Found { path: entry.target.clone(), ..made }, done))
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

/// Compares what the target gives back with what was written.
fn verify(
    context: &Arc<Context>,
    target: Opened,
    size: u64,
    written: u32,
    tally: &Arc<Tally>,
) -> Result<(), Fault> {
    let (tree, path) = (context.target.clone(), target.path.clone());
    let attr = target.file.attributes().tried(&*tree, &path, "look at")?;
    if attr.size != size {
        let cause = Cause::WrongSize { expected: size, found: attr.size };
        return Err(Fault::new(&*tree, &path, "verify", cause));
    }
    target.file.forget_cached().tried(&*tree, &path, "drop the cache of")?;
    let sparse = target.file.has_holes(&attr).tried(&*tree, &path, "look for holes in")?;
    let found = content::read_back(context, &Opened { sparse, ..target }, size, tally)?;
    if found != written {
        let cause = Cause::Differs { expected: written, found };
        return Err(Fault::new(&*tree, &path, "verify", cause));
    }
    Ok(())
}
