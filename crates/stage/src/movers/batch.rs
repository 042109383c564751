//! Small files: a mover copies many of them with one order, whole, up to their last step, which is the coordinator's.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use wire::control::Side;
use wire::mover::{Answer, Made, Order, Outcome, WholeFile};

use super::link::Link;
use super::probe;
use super::record::{self, bytes, known, path};
use crate::batch;
use crate::context::Context;
use crate::entry::Entry;
use crate::fault::{Cause, Fault};
use crate::journal::Finished;
use crate::monitor::Tally;
use crate::run::Run;
use crate::tree::Found;
use crate::{part, regular, verify, worker};

/// Has a file copied by a mover, and those that come after it.
pub(super) fn stage(run: &Arc<Run>, link: &Link, first: Entry) {
    let entries = batch::gather(run, first, &batch::ORDER);
    run.pace(entries.iter().map(|entry| entry.source.attr.size).sum());
    let whole = |entry: &Entry| WholeFile {
        source: known(&entry.source),
        folder: known(&entry.folder.target),
        target: bytes(&entry.target),
    };
    entries.iter().for_each(|entry| run.announce(&entry.target));
    let order = Order::Files(entries.iter().map(whole).collect());
    let (source, target) = (&entries[0].source, &entries[0].target);
    match link.order(run, target, &order, || probe::pfs(run, source, target)) {
        Ok(Answer::Files { files, remarks }) if files.len() == entries.len() => {
            remarks.iter().for_each(|(path, text)| run.remark(path, text));
            entries.into_iter().zip(files).for_each(|(entry, outcome)| settle(run, link, entry, outcome));
        }
        _ => {
            link.give_up(run, "its mover does not understand what it is to do");
            sweep(run, link, &entries);
            entries.into_iter().for_each(|entry| worker::stage(run, entry));
        }
    }
}

fn settle(run: &Arc<Run>, link: &Link, entry: Entry, outcome: Outcome) {
    match outcome {
        Outcome::Failed(fault) => match record::fault(fault) {
            // A buffer that is nearly full has no room for a part beside what has its name; we make it in place of
            // that.
            full if full.errno() == Some(Errno::NOSPC) && full.side == Side::Buffer => {
                worker::stage(run, entry);
            }
            // It has lost something: we say what.
            stopped if stopped.cause == Cause::Stopped => worker::stage(run, entry),
            fault => worker::finish(run, entry, Err(fault)),
        },
        Outcome::Foreign(why) => {
            link.give_up(run, &why);
            worker::stage(run, entry);
        }
        Outcome::Made(made) => match publish(run, &entry, &made) {
            Ok(there) => {
                run.monitor.helped(&link.node, made.size);
                note(run, &entry, &there, &made);
                worker::finish(run, entry, Ok(()));
            }
            // Another's file has the name that it had from the start.
            Err(fault) if fault.exhausted => worker::finish(run, entry, Err(fault)),
            Err(fault) => {
                if fault.errno() == Some(Errno::NOENT) {
                    link.give_up(run, &format!("what it makes is not seen here: {fault}"));
                }
                run.give_up(path(made.place));
                worker::stage(run, entry);
            }
        },
    }
}

/// Gives a file that a mover made its name. The number by which it is known is the file's while the mover lives that
/// long, and nobody removes the file: who could do that could as well put another in its place afterwards.
fn publish(context: &Context, entry: &Entry, made: &Made) -> Result<Found, Fault> {
    let folder = &entry.folder.target;
    let made = Found { path: path(made.place.clone()), attr: made.attr, ..folder.clone() };
    part::publish(context, folder, &made, &entry.target)
}

fn note(run: &Arc<Run>, entry: &Entry, there: &Found, made: &Made) {
    let Made { size, mtime, crc32c, attempts, verified, finished_ms, .. } = *made;
    let tally = Tally::new(&run.monitor);
    tally.copied(size);
    tally.verified(verify::bytes(verified, size));
    tally.keep();
    run.monitor.moved(size);
    // As it was when it was found: a mover that saw a later version is asked for it again, should there be another run.
    let changed = Some(entry.source.attr.ctime);
    let done = Finished { size, mtime, changed, crc32c, attempts, verified, finished_ms };
    regular::note(run, there, done);
}

/// Removes what a lost mover left in the folders of its files.
fn sweep(context: &Context, link: &Link, entries: &[Entry]) {
    // It may have made what it could not tell of; whoever goes on looks.
    let mut strays = context.shared.strays.lock().expect("no thread panics with the lock");
    (strays.unknown, strays.missed) = (true, true);
    drop(strays);
    if context.monitor.is_stopping() {
        return;
    }
    let folders: HashSet<&Path> = entries.iter().map(|entry| entry.folder.target.path.as_path()).collect();
    for folder in folders {
        // What cannot be removed now is removed by the next run.
        let Ok(found) = context.sides.target.find(folder) else { continue };
        let Ok(listing) = context.sides.target.list(&found) else { continue };
        for left in listing.flatten().filter(|left| context.is_of_mover(&left.path, &link.name)) {
            let _ = context.sides.target.remove(&left.path);
        }
    }
}
