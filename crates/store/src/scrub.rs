//! Looks at every object: seals what is at rest, and compares what is sealed with what is on the disk, at a bounded
//! rate.
//!
//! The disk is read past the page cache, which may have what the disk does not, and is left as it is.

mod findings;
mod mark;
pub mod schedule;
pub mod sealer;

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use disk::aligned::Aligned;
use model::Ino;
use wire::node::ScrubStatus;

use self::findings::{known, pass_lost, pass_unsealed, repair, report, unverified};
use crate::extents::BLOCK_BYTES;
use crate::integrity::guard::Guard;
use crate::integrity::pace::Pace;
use crate::integrity::report::Fault;
use crate::integrity::{BLOCK, CHUNK_BLOCKS, CHUNK_BYTES, Seal, next_chunk, sum_of};
use crate::objects::Objects;

/// How fast, where who asks for it does not say, bytes a second: a part of what flash does.
pub const ASKED_BYTES_PER_S: u64 = 256 << 20;

/// So many places that are damaged are listed; more are counted.
const LISTED_MAX: usize = 10_000;

/// Objects that are taken from the log of seals at once.
const PAGE: usize = 256;

/// Starts a scrub, if none runs; objects that were left alone for `idle` are sealed first. Tells how it stands.
pub fn start(
    objects: &Arc<Objects>,
    namespace: u32,
    bytes_per_s: Option<u64>,
    idle: Duration,
) -> ScrubStatus {
    let mut status = lock(objects);
    if !status.running {
        *status = ScrubStatus { running: true, begun: true, ..ScrubStatus::default() };
        let worker = objects.clone();
        let run = move || run(&worker, namespace, bytes_per_s, idle);
        if let Err(error) = std::thread::Builder::new().name("scrub".into()).spawn(run) {
            (status.running, status.error) = (false, Some(format!("no thread to scrub with: {error}")));
        }
    }
    status.clone()
}

/// How the last scrub stands. Where there was none since the node started, what is known all the same.
pub fn status(objects: &Objects, namespace: u32) -> ScrubStatus {
    let status = lock(objects).clone();
    if status.begun { status } else { ScrubStatus { damaged: known(objects, namespace), ..status } }
}

fn lock(objects: &Objects) -> std::sync::MutexGuard<'_, ScrubStatus> {
    objects.keeper().scrub.lock().expect("no thread panics while it holds the state of a scrub")
}

fn run(objects: &Objects, namespace: u32, bytes_per_s: Option<u64>, idle: Duration) {
    let mut pace = Pace::new(bytes_per_s);
    let scrubbed = objects.adopt().and_then(|()| objects.seal_idle(idle, &mut pace));
    let scrubbed = scrubbed.and_then(|()| pass(objects, namespace, &mut pace));
    let scrubbed = scrubbed.map(|()| pass_unsealed(objects, namespace));
    let scrubbed = scrubbed.map(|()| pass_lost(objects, namespace));
    if scrubbed.is_ok() {
        objects.keeper().forget_healed();
        mark::note(objects);
    }
    let scrubbed = scrubbed.and_then(|()| objects.keeper().known.save());
    let unverified = unverified(objects, namespace);
    let mut status = lock(objects);
    status.seals_lost = objects.keeper().unverified.why();
    status.unverified_more = unverified.len().saturating_sub(LISTED_MAX) as u64;
    status.unverified = unverified.into_iter().take(LISTED_MAX).collect();
    status.running = false;
    status.in_use = objects.keeper().queued().len() as u64;
    status.error = scrubbed.err().map(|error| error.to_string());
    let (checked, damaged) = (status.objects, status.damaged.len());
    tracing::info!(namespace, checked, damaged, error = status.error, "scrubbed");
}

/// Compares every seal with what is there.
fn pass(objects: &Objects, namespace: u32, pace: &mut Pace) -> io::Result<()> {
    let mut after = None;
    loop {
        let page = objects.keeper().log.after(after, PAGE);
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        for (ino, sealed) in page {
            objects.keeper().check_open()?;
            let (faults, bytes) = check(objects, ino, pace)?;
            let (faults, repaired) = repair(objects, ino, sealed.seal.length, faults, pace)?;
            {
                let mut status = lock(objects);
                status.bytes += bytes;
                status.repaired += repaired;
            }
            report(objects, (namespace, ino), sealed.seal.length, faults);
        }
    }
}

/// What is wrong with an object that nobody is changing, and how much of it was read.
fn check(objects: &Objects, ino: Ino, pace: &mut Pace) -> io::Result<(Vec<Fault>, u64)> {
    look(objects, ino, pace).or_else(|error| Ok((vec![Fault::of(&error).ok_or(error)?], 0)))
}

/// The same, where an error may also be about the object.
fn look(objects: &Objects, ino: Ino, pace: &mut Pace) -> io::Result<(Vec<Fault>, u64)> {
    let fine = Ok((Vec::new(), 0));
    if objects.keeper().log.get(ino).is_none() {
        return fine;
    }
    let file = match open(&objects.path(ino)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok((missing(objects, ino).into_iter().collect(), 0));
        }
        Err(error) => return Err(objects.unopened(ino, error)),
    };
    let Some(guard) = objects.guard(ino)? else { return fine };
    if let Some(fault) = guard.fault(&file)? {
        return Ok((vec![fault], 0));
    }
    // The object's own: that of the log may be a copy of it.
    let Some(seal) = guard.lock().base.clone() else { return fine };
    let (mut faults, mut bytes, mut from) = (Vec::new(), 0, 0);
    let next = |from| match from * CHUNK_BYTES < seal.length {
        // A hole where there should be bytes is looked at, too.
        true => next_chunk(&file, Some(&seal), from)
            .map_err(|error| Fault::of_read(ino, from * CHUNK_BYTES, error))
            .map(|next| next.filter(|next| next * CHUNK_BYTES < seal.length)),
        false => Ok(None),
    };
    while let Some(index) = next(from)? {
        objects.keeper().check_open()?;
        let read = check_chunk(&file, &guard, &seal, index, &mut faults)?;
        bytes += read;
        pace.spent(read);
        from = index + 1;
    }
    Ok((faults, bytes))
}

/// What is wrong where there is no object. Whoever removes one takes it from the log first.
fn missing(objects: &Objects, ino: Ino) -> Option<Fault> {
    let was = objects.keeper().must_have(ino);
    (was > 0).then_some(Fault::Missing { was })
}

fn check_chunk(
    file: &File,
    guard: &Guard,
    seal: &Seal,
    index: u64,
    faults: &mut Vec<Fault>,
) -> io::Result<u64> {
    let first = index * CHUNK_BLOCKS;
    let Ok(sums) = seal.sums(index) else {
        faults.push(Fault::Sums { block: first });
        return Ok(0);
    };
    let mut chunk = Aligned::default();
    let read = match read_chunk(file, index * CHUNK_BYTES, &mut chunk) {
        Ok(read) => read,
        Err(error) => {
            faults.push(Fault::unreadable(index * CHUNK_BYTES, &error));
            return Ok(0);
        }
    };
    let bytes = &chunk[..read];
    for (number, sum) in sums.iter().enumerate() {
        let block = first + number as u64;
        let start = (number * BLOCK).min(bytes.len());
        let found = sum_of(&bytes[start..bytes.len().min(start + BLOCK)]);
        if found == *sum || !is_unchanged(file, guard, seal, block) {
            continue;
        }
        match faults.last_mut() {
            Some(Fault::Blocks { blocks }) if blocks.end == block => blocks.end += 1,
            _ => faults.push(Fault::Blocks { blocks: block..block + 1 }),
        }
    }
    Ok(read as u64)
}

/// Whether nobody can have changed the block since before it was read.
fn is_unchanged(file: &File, guard: &Guard, seal: &Seal, block: u64) -> bool {
    let state = guard.lock();
    state.knows(file, block).is_some_and(|base| std::ptr::eq(&**base, seal))
}

fn open(path: &Path) -> io::Result<File> {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(direct).open(path);
    match opened {
        // Some file systems have no direct I/O.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
            File::open(path)
        }
        other => other,
    }
}

/// Reads a chunk from there on. So many bytes there were.
fn read_chunk(file: &File, offset: u64, chunk: &mut Aligned) -> io::Result<usize> {
    let place = chunk.first(CHUNK_BYTES as usize);
    let mut done = 0;
    while done < place.len() {
        match file.read_at(&mut place[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // The object's end: direct I/O reads from whole blocks only.
        if !(done as u64).is_multiple_of(BLOCK_BYTES) {
            break;
        }
    }
    Ok(done)
}
