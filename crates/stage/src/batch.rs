//! Small files, many at a time: one sync serves all of them.
//!
//! ```text
//! take from the queue -> write each -> sync all -> each: source unchanged? read back, compare, metadata -> name, journal
//! ```
//!
//! **Invariant:** what goes wrong with a batch as a whole is nobody's failure: its files are then copied one by one.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::io::Errno;
use wire::data::FileKind;

use crate::blocks::UNIT_BYTES;
use crate::context::Context;
use crate::entry::{Entry, Role};
use crate::fault::{Cause, Fault, Tried};
use crate::regular::{self, Copy, Written};
use crate::run::Run;
use crate::tree::{self, Found};
use crate::version::{self, Version};
use crate::worker;

/// What goes together: who dies has at most so much to be done again.
pub(crate) struct Bounds {
    file_bytes_max: u64,
    bytes_max: u64,
}

/// For this host's own workers. Of larger files a sync is a small part of what they cost, and many at once would be
/// ready late.
const OWN: Bounds = Bounds { file_bytes_max: 256 << 10, bytes_max: 4 << 20 };

/// For movers, whose orders cost a round trip.
pub(crate) const ORDER: Bounds = Bounds { file_bytes_max: UNIT_BYTES, bytes_max: UNIT_BYTES };

/// Files in a batch, which are open at once, on both sides.
const FILES_MAX: usize = 128;

/// A file to copy: the source, and the path that it is to have.
pub(crate) type Task<'a> = (&'a Found, &'a Path);

/// What became of one file of a batch.
pub(crate) enum Made<'a> {
    Copy(Box<Copy<'a>>),
    Failed(Fault),
    /// Nothing is known against it; it is to be copied by itself.
    Alone,
}

/// Whether an entry may go with others: a regular file with one name that one worker copies, not done before, and with
/// nothing known against it.
pub(crate) fn takes(context: &Context, entry: &Entry, bounds: &Bounds) -> bool {
    entry.role == Role::Alone
        && entry.source.attr.kind == FileKind::Regular
        && entry.source.attr.size <= bounds.file_bytes_max
        && context.journal.finished(&entry.target).is_none()
        && !context.shared.unverified.has(&entry.source)
}

/// Takes entries from the queue that go with `first`: a fair share of those that wait.
pub(crate) fn gather(run: &Run, first: Entry, bounds: &Bounds) -> Vec<Entry> {
    let (device, mut total) = (first.folder.target.device, first.source.attr.size);
    let mut entries = vec![first];
    let share = |waiting: usize| (waiting / run.workers_in_all()).min(FILES_MAX - 1);
    entries.extend(run.queue.take_more(share, |next| {
        total = total.saturating_add(next.source.attr.size);
        total <= bounds.bytes_max && next.folder.target.device == device && takes(run, next, bounds)
    }));
    entries
}

/// Stages an entry, and those that go with it.
pub(crate) fn stage(run: &Arc<Run>, first: Entry) {
    let entries = if takes(run, &first, &OWN) { gather(run, first, &OWN) } else { vec![first] };
    let _at = run.shared.at.begin(&run.sides.source.show(&entries[0].source.path), entries.len() - 1);
    run.pace(0);
    if entries.len() == 1 || run.monitor.is_stopping() {
        return entries.into_iter().for_each(|entry| worker::stage(run, entry));
    }
    let tasks = entries.iter().map(|entry| (&entry.source, entry.target.as_path())).collect();
    let made = make(run, &entries[0].folder.target, tasks);
    for (entry, made) in entries.into_iter().zip(made) {
        let published = |copy| regular::publish(run, &entry, copy).map(drop);
        let first = match made {
            Made::Copy(copy) => published(*copy),
            Made::Failed(fault) => Err(fault),
            Made::Alone => {
                worker::stage(run, entry);
                continue;
            }
        };
        let mut attempts = 1;
        let outcome = run.retrying_after(first, || {
            attempts += 1;
            regular::attempt(run, &entry, attempts).map(drop)
        });
        worker::finish(run, entry, outcome);
    }
}

/// Makes verified copies of files that are to get their names in `folder`, or elsewhere in its file system; tells of
/// each in order what became of it.
pub(crate) fn make<'a>(run: &'a Arc<Run>, folder: &Found, tasks: Vec<Task<'_>>) -> Vec<Made<'a>> {
    let Ok(batch) = run.sides.target.begin_batch(folder) else {
        return tasks.iter().map(|_| Made::Alone).collect();
    };
    let written = write(run, tasks);
    let synced = batch.map(|batch| {
        let files: Vec<&Found> = written.iter().flatten().map(Written::made).collect();
        batch.sync(&files).tried(&*run.sides.target, &folder.path, "sync files in")
    });
    match &synced {
        Some(Err(fault)) => {
            let text = format!("{}: {}; each is synced by itself", fault.operation, fault.cause);
            run.remark(&fault.path, &text);
            written.into_iter().map(|file| file.map_or_else(failed, |_| Made::Alone)).collect()
        }
        Some(Ok(())) => settle_all(run, written, |_| Ok(())),
        None => settle_all(run, written, Written::sync),
    }
}

/// Writes the copies; the sources are opened together where that is less work.
fn write<'a>(run: &'a Arc<Run>, tasks: Vec<Task<'_>>) -> Vec<Result<Written<'a>, Fault>> {
    let sources: Vec<&Found> = tasks.iter().map(|(source, _)| *source).collect();
    // Before they are opened: they may be read then.
    run.sleep(sources.iter().map(|source| version::rest(source)).max().unwrap_or_default());
    let Some(opened) = run.sides.source.open_all(&sources) else {
        return tasks.into_iter().map(|(source, target)| regular::write(run, source, target)).collect();
    };
    let tree = &*run.sides.source;
    let flushed = run.shared.unverified.flush(tree, &sources);
    let copy = |(((source, target), opened), flushed): ((Task<'_>, tree::Result<_>), _)| {
        let (attr, file) = opened.tried(tree, &source.path, "open for reading")?;
        flushed?;
        let is_new = Version::of(&attr) != Version::of(&source.attr);
        if is_new && !version::rest(&Found { attr, since: Instant::now(), ..source.clone() }).is_zero() {
            return Err(Fault::new(tree, &source.path, "open for reading", Cause::Changed));
        }
        regular::write_from(run, regular::opened(run, source, attr, file)?, target)
    };
    tasks.into_iter().zip(opened).zip(flushed).map(copy).collect()
}

/// Settles the copies, each after its `sync`; the sources are looked at together where that is less work.
fn settle_all<'a>(
    run: &'a Arc<Run>,
    written: Vec<Result<Written<'a>, Fault>>,
    sync: impl Fn(&Written<'a>) -> Result<(), Fault>,
) -> Vec<Made<'a>> {
    let sources: Vec<&Found> = written.iter().flatten().map(Written::source).collect();
    let mut seen = run.sides.source.survey(&sources).map(Vec::into_iter);
    let mut settled = |file: Written<'a>| {
        let now = seen.as_mut().and_then(Iterator::next);
        sync(&file).and_then(|()| regular::settle(run, file, now, 1))
    };
    written
        .into_iter()
        .map(|file| file.and_then(&mut settled).map_or_else(failed, |copy| Made::Copy(Box::new(copy))))
        .collect()
}

/// A file that could not be opened because too many others are may be, later.
fn failed<'a>(fault: Fault) -> Made<'a> {
    match fault.errno() {
        Some(Errno::MFILE | Errno::NFILE) => Made::Alone,
        _ => Made::Failed(fault),
    }
}
