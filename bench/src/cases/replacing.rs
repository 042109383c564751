//! Creates while the metadata log is replaced by a shorter one, against creates beside the same work before and after.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Client, FileKind, Names, Node, ROOT, RequestId::New};
use model::Ino;
use wire::data::message::XattrMode;

use super::Effort;
use crate::buffer::{Buffer, Volume, media};
use crate::namespace;
use crate::report::{Line, Measurement};
use crate::work::creates::{self, CREATOR};

/// Files in the namespace: what a replacement has to write.
const FILES: usize = 300_000;
const FILLERS: usize = 4;

/// What makes the log grow: extended attributes of so many bytes, so often.
const VALUE_BYTES: usize = 60_000;
const PAUSE: Duration = Duration::from_millis(2);

/// A log that was not replaced by then never will be.
const LIMIT: Duration = Duration::from_secs(120);

/// The pause that we allow: a create among a thousand takes at most twice as long.
const TARGET: f64 = 0.5;

const BOUND: &str =
    "the thread that replaces the log reads, sorts and writes beside two clients on two processors";

/// On each medium, with one node.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let mut lines = Vec::new();
    for medium in media() {
        let buffer = Buffer::mount(medium, 1, Volume::Directory)?;
        let folder = buffer.cluster().state.join("nodes/n0/fragments");
        let clients = namespace::clients(&buffer, FILLERS)?;
        creates::fill(&clients, FILES)?;
        let replacements =
            (0..effort.pairs).map(|_| one_replacement(&clients, &folder)).collect::<Result<Vec<_>>>()?;
        let case = format!(
            "99.9th percentile of create while the log of {FILES} files is replaced, {}",
            buffer.name()
        );
        let line = Line::new(case, "ms", "beside the same work without", TARGET).bounded_by(BOUND);
        lines.push(line.of_costs(&replacements));
        drop(clients);
        buffer.unmount()?;
    }
    Ok(lines)
}

/// The 99.9th percentile, milliseconds, of creates during a replacement and outside of it.
fn one_replacement(clients: &[Client], fragments: &Path) -> Result<(f64, f64)> {
    let draft = draft_of(fragments)?;
    let (over, replacing) = (AtomicBool::new(false), AtomicBool::new(false));
    let growing = clients[0]
        .mknod(New, ROOT, b"growing", &Node { kind: FileKind::Regular, mode: 0o644, rdev: 0 }, &CREATOR)?
        .ino;
    let folder = clients[1].mkdir(New, ROOT, b"replacing", 0o755, &CREATOR)?.ino;
    let measured = std::thread::scope(|scope| {
        let grow = scope.spawn(|| -> Result<()> {
            while !over.load(Ordering::Relaxed) {
                clients[0].setxattr(New, growing, b"user.grows", &[7; VALUE_BYTES], XattrMode::Any)?;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        let look = scope.spawn(|| {
            let seen = watch(&draft, &replacing);
            over.store(true, Ordering::Relaxed);
            seen
        });
        let timed = time_creates(&clients[1], folder, &over, &replacing);
        over.store(true, Ordering::Relaxed);
        grow.join().expect("no thread of the bench panics")?;
        let seen = look.join().expect("no thread of the bench panics");
        ensure!(seen, "the log was not replaced within {LIMIT:?}");
        timed
    })?;
    clients[1].rmdir(New, ROOT, b"replacing")?;
    clients[0].unlink(New, ROOT, b"growing")?;
    Ok(measured)
}

/// Says while the draft of a log is there, until as long after it as before; whether it was.
fn watch(draft: &Path, replacing: &AtomicBool) -> bool {
    let begin = Instant::now();
    let (mut seen, mut after) = (false, None);
    while begin.elapsed() < LIMIT && after.is_none_or(|after| Instant::now() < after) {
        let there = draft.symlink_metadata().is_ok();
        replacing.store(there, Ordering::Relaxed);
        if seen && !there && after.is_none() {
            after = Some(Instant::now() + Duration::from_secs(1));
        }
        seen |= there;
        std::thread::sleep(Duration::from_millis(1));
    }
    seen
}

fn time_creates(
    client: &Client,
    folder: Ino,
    over: &AtomicBool,
    replacing: &AtomicBool,
) -> Result<(f64, f64)> {
    let (mut during, mut outside) = (Vec::new(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        let (begin, before) = (Instant::now(), replacing.load(Ordering::Relaxed));
        client.mknod(New, folder, b"f", &Node { kind: FileKind::Regular, mode: 0o644, rdev: 0 }, &CREATOR)?;
        let took = begin.elapsed();
        let times = if before || replacing.load(Ordering::Relaxed) { &mut during } else { &mut outside };
        times.push(took);
        client.unlink(New, folder, b"f")?;
    }
    Ok((percentile(during)?, percentile(outside)?))
}

/// The 99.9th, milliseconds.
fn percentile(mut times: Vec<Duration>) -> Result<f64> {
    ensure!(times.len() >= 1000, "{} creates are too few for a 99.9th percentile", times.len());
    times.sort();
    Ok(times[times.len() - 1 - times.len() / 1000].as_secs_f64() * 1e3)
}

/// The name that a log has before it is in place, in the only namespace of the only fragment.
fn draft_of(fragments: &Path) -> Result<PathBuf> {
    let fragment = std::fs::read_dir(fragments)?.next().context("the node has a fragment")??;
    Ok(fragment.path().join("namespaces/0/meta.log.new"))
}
