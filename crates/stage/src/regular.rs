//! One regular file, from the source to its name at the target.
//!
//! ```text
//! open -> make -> copy -> fsync -> source unchanged? -> read back, compare -> close -> owner, xattrs, mode, times
//!      -> rename -> journal                              (the folder's fsync comes when all its entries are done)
//! ```
//!
//! **Invariant:** a file is journalled and counted as done only after what the target gives back was compared with
//! what was read from the source, as far as the stage's policy says. A step that fails leaves nothing at the target;
//! what had the name before is still there (on the PFS; in a buffer the name is taken at once).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use model::Ino;
use model::phase::Direction;
use wire::data::{Attr, FileKind};
use wire::node::Verify;

use crate::before::{Staged, already_staged};
use crate::blocks::{self, Sums};
use crate::content::{self, Opened};
use crate::context::Context;
use crate::copier::Transfer;
use crate::entry::Entry;
use crate::fault::{Cause, Fault, READ, Tried};
use crate::journal::{Finished, Inode};
use crate::metadata;
use crate::monitor::Tally;
use crate::part::Part;
use crate::resume::{self, Begun};
use crate::run::Run;
use crate::times;
use crate::tree::{self, Found, OpenFile, Survey, TargetFile};
use crate::verify;
use crate::version::{self, Version};

/// Stages a file.
pub(crate) fn stage(run: &Arc<Run>, entry: &Entry) -> Result<Staged, Fault> {
    // First: a copy that an earlier run has made may be one of what nobody can vouch for.
    run.shared.unverified.check(&*run.sides.source, &entry.source)?;
    if let Some(there) = already_staged(run, entry) {
        return Ok(there);
    }
    let mut attempts = 0;
    run.retrying(|| {
        attempts += 1;
        attempt(run, entry, attempts)
    })
}

/// One try, whatever earlier runs did. Nothing was wrong with what a mover that hangs was at: that is made anew.
pub(crate) fn attempt(run: &Arc<Run>, entry: &Entry, mut attempts: u32) -> Result<Staged, Fault> {
    loop {
        match make(run, &entry.source, &entry.target, attempts) {
            Err(fault) if fault.cause == Cause::Abandoned => attempts += 1,
            made => return publish(run, entry, made?),
        }
    }
}

/// Gives a copy of an entry its name.
pub(crate) fn publish(context: &Context, entry: &Entry, copy: Copy<'_>) -> Result<Staged, Fault> {
    let there = copy.part.publish(&entry.folder.target, &copy.made, &entry.target)?;
    drop(copy.held);
    copy.tally.keep();
    note(context, &there, copy.done);
    Ok(Staged { there, of: copy.of, done: copy.done })
}

/// A copy that is written, and neither synced nor compared.
pub(crate) struct Written<'a> {
    // First, so that the file is closed before a part that is given up is removed.
    file: Arc<Transfer>,
    part: Part<'a>,
    sums: Sums,
    /// Blocks that an earlier run wrote.
    resumed: BTreeMap<usize, u32>,
    tally: Arc<Tally>,
}

/// A verified copy with all but its name.
pub(crate) struct Copy<'a> {
    /// Keeps its inode number from being another's; first, as in [`Written`].
    held: Arc<dyn TargetFile>,
    pub(crate) made: Found,
    /// The source that was copied.
    pub(crate) of: Attr,
    pub(crate) part: Part<'a>,
    pub(crate) done: Finished,
    pub(crate) tally: Arc<Tally>,
}

/// Makes a verified copy with the source's metadata, which is to become `target`.
pub(crate) fn make<'a>(
    run: &'a Arc<Run>,
    source: &Found,
    target: &Path,
    attempts: u32,
) -> Result<Copy<'a>, Fault> {
    let written =
        if attempts > 1 { write(run, &again(run, source)?, target)? } else { write(run, source, target)? };
    written.sync()?;
    settle(run, written, None, attempts)
}

/// What has the source's name now: the file may have been replaced as a whole.
fn again(context: &Context, source: &Found) -> Result<Found, Fault> {
    let tree = &*context.sides.source;
    let found = tree.find(&source.path).tried(tree, &source.path, "look up")?;
    match found.attr.kind {
        FileKind::Regular => Ok(found),
        _ => Err(Fault::new(tree, &source.path, "look up", Cause::Changed)),
    }
}

/// Begins a copy that is to become `target`, and writes its contents.
pub(crate) fn write<'a>(run: &'a Arc<Run>, source: &Found, target: &Path) -> Result<Written<'a>, Fault> {
    let tree = &run.sides.source;
    run.sleep(version::rest(source));
    let file = tree.open(source).tried(&**tree, &source.path, "open for reading")?;
    let mut attr = file.attributes().tried(&**tree, &source.path, "look at")?;
    if Version::of(&attr) != Version::of(&source.attr) {
        // It has this version only since now.
        run.sleep(version::rest(&Found { attr, since: Instant::now(), ..source.clone() }));
        attr = file.attributes().tried(&**tree, &source.path, "look at")?;
    }
    run.shared.unverified.flush_one(&**tree, source)?;
    write_from(run, opened(run, source, attr, file)?, target)
}

/// The same of a source that is open, as it was then.
pub(crate) fn write_from<'a>(
    run: &'a Arc<Run>,
    (source, found): (Opened, Found),
    target: &Path,
) -> Result<Written<'a>, Fault> {
    let size = found.attr.size;
    let data = content::data(run, &source, size)?;
    let Begun { made, part, target, mut blocks } = resume::begin(run, target, &found)?;
    // Former versions noted holes as well.
    blocks.retain(|block, _| blocks::has(&data, *block));
    // What is a hole there need not be read back: it reads as zeros.
    let target = Opened { sparse: source.sparse, ..target };
    let tally = Arc::new(Tally::new(&run.monitor));
    let layout = run.remote.layout_for(size).filter(|_| !source.sparse);
    let spread = layout.map(|layout| (layout, buffer_ino(run, &found, &made)));
    let file = Arc::new(Transfer { size, source, data, found, target, made, spread });

    let sums = file.copy(run, &blocks, &tally)?;
    Ok(Written { file, part, sums, resumed: blocks, tally })
}

impl Written<'_> {
    /// Its entry, under its working name.
    pub(crate) fn made(&self) -> &Found {
        &self.file.made
    }

    /// What it is a copy of, as it was when it was opened.
    pub(crate) fn source(&self) -> &Found {
        &self.file.found
    }

    /// Makes the contents survive a power loss.
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let target = &self.file.target;
        target.file.sync().tried(&*target.tree, &target.path, "fsync")
    }
}

/// Compares what is written and synced, and gives it the source's metadata; `now` is what that is like, if somebody has
/// looked.
pub(crate) fn settle<'a>(
    run: &Arc<Run>,
    written: Written<'a>,
    now: Option<Survey>,
    attempts: u32,
) -> Result<Copy<'a>, Fault> {
    // The part first, so that it is dropped after the file.
    let Written { part, file, sums, resumed, tally } = written;
    let now = now.unwrap_or_else(|| look(run, &file));
    check_unchanged(&file, now.attr)?;
    verify(run, &file, &sums, &resumed, &tally)?;
    file.target.file.close().tried(&*file.target.tree, file.name(), "close")?;
    metadata::keep_with(run, &file.found, now.xattrs, &file.made, file.name())?;
    let done = Finished {
        size: file.size,
        mtime: file.found.attr.mtime,
        changed: Some(file.found.attr.ctime),
        crc32c: sums.whole(),
        attempts,
        verified: verify::of_size(run.policy.verify, file.size),
        finished_ms: now_ms(),
    };
    let held = Arc::clone(&file.target.file);
    Ok(Copy { held, made: file.made.clone(), of: file.found.attr, part, done, tally })
}

/// Notes a file that has its name.
pub(crate) fn note(context: &Context, there: &Found, done: Finished) {
    context.in_vain().clear();
    context.journal.finish(&there.path, done, Inode::of(there));
    times::compare(context, there, done.mtime);
    context.manifest.file(&there.path, &done);
}

/// A source that is open, and had these attributes then.
pub(crate) fn opened(
    context: &Context,
    source: &Found,
    attr: Attr,
    file: Box<dyn OpenFile>,
) -> Result<(Opened, Found), Fault> {
    let (tree, path) = (&context.sides.source, &source.path);
    let sparse = file.has_holes(&attr).tried(&**tree, path, "look for holes in")?;
    let opened = Opened { tree: tree.clone(), path: path.clone(), file: Arc::from(file), sparse };
    Ok((opened, Found { attr, ..source.clone() }))
}

/// The inode of the file in the buffer, whichever side that is.
fn buffer_ino(context: &Context, source: &Found, made: &Found) -> Ino {
    match context.sides.direction {
        Direction::In => made.attr.ino,
        Direction::Out => source.attr.ino,
    }
}

fn look(context: &Context, file: &Transfer) -> Survey {
    Survey { attr: file.source.file.attributes(), xattrs: context.sides.source.xattrs(&file.found) }
}

fn check_unchanged(file: &Transfer, now: tree::Result<Attr>) -> Result<(), Fault> {
    let (source, before) = (&file.source, &file.found.attr);
    let after = now.tried(&*source.tree, &source.path, "look at")?;
    if Version::of(&after) == Version::of(before) {
        return Ok(());
    }
    Err(Fault::new(&*source.tree, &source.path, READ, Cause::Changed))
}

/// Compares what the target gives back with what was written, as far as the policy says; blocks that an earlier run
/// wrote in any case, as nobody knows what became of its writes.
fn verify(
    run: &Arc<Run>,
    file: &Arc<Transfer>,
    written: &Sums,
    resumed: &BTreeMap<usize, u32>,
    tally: &Arc<Tally>,
) -> Result<(), Fault> {
    let (target, size) = (&file.target, file.size);
    let attr = target.file.attributes().tried(&*target.tree, &target.path, "look at")?;
    if attr.size != size {
        let cause = Cause::WrongSize { expected: size, found: attr.size };
        return Err(Fault::new(&*target.tree, &target.path, "verify", cause));
    }
    if verify::of_size(run.policy.verify, size) == Verify::Off && resumed.is_empty() {
        return Ok(());
    }
    target.file.forget_cached().tried(&*target.tree, &target.path, "drop the cache of")?;
    let chosen =
        |block: usize| verify::includes(run.policy.verify, size, block) || resumed.contains_key(&block);
    file.read_back(run, written, chosen, tally)
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
