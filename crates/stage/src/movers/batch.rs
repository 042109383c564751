//! Small files: a mover copies many of them with one order, whole, up to their last step, which is the coordinator's.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use wire::control::Side;
use wire::mover::{Answer, Made, Order, Outcome, WholeFile};

use super::lane::{bytes, known, path};
use super::link::Link;
use super::record;
use crate::batch;
use crate::context::Context;
use crate::entry::{self, Entry};
use crate::fault::{Fault, Tried};
use crate::journal::Finished;
use crate::monitor::Tally;
use crate::{regular, verify};

/// Has a file copied by a mover, and those that come after it.
pub(super) fn stage(context: &Arc<Context>, link: &Link, first: Entry) {
    let entries = batch::gather(context, first, &batch::ORDER);
    context.pace(entries.iter().map(|entry| entry.source.attr.size).sum());
    let whole = |entry: &Entry| WholeFile {
        source: known(&entry.source),
        folder: known(&entry.folder.target),
        target: bytes(&entry.target),
    };
    entries.iter().for_each(|entry| context.announce(&entry.target));
    let order = Order::Files(entries.iter().map(whole).collect());
    match link.order(context, &entries[0].target, &order) {
        Some(Answer::Files { files, remarks }) if files.len() == entries.len() => {
            remarks.iter().for_each(|(path, text)| context.remark(path, text));
            entries.into_iter().zip(files).for_each(|(entry, outcome)| settle(context, link, entry, outcome));
        }
        _ => {
            link.give_up(context, "its mover ended; what it was at is copied by others");
            sweep(context, link, &entries);
            entries.into_iter().for_each(|entry| entry::stage(context, entry));
        }
    }
}

fn settle(context: &Arc<Context>, link: &Link, entry: Entry, outcome: Outcome) {
    match outcome {
        Outcome::Failed(fault) => match record::fault(fault) {
            // A buffer that is nearly full has no room for a part beside what has its name; we make it in place of
            // that.
            full if full.errno() == Some(Errno::NOSPC) && full.side == Side::Buffer => {
                entry::stage(context, entry);
            }
            fault => entry::finish(context, entry, Err(fault)),
        },
        Outcome::Foreign(why) => {
            link.give_up(context, &why);
            entry::stage(context, entry);
        }
        Outcome::Made(made) => match publish(context, &entry, &made) {
            Err(fault) if fault.errno() == Some(Errno::NOENT) => {
                link.give_up(context, &format!("what it makes is not seen here: {fault}"));
                entry::stage(context, entry);
            }
            published => {
                if published.is_ok() {
                    context.monitor.helped(&link.node, made.size);
                    note(context, &entry, made);
                }
                entry::finish(context, entry, published);
            }
        },
    }
}

/// Gives a file that a mover made its name.
fn publish(context: &Context, entry: &Entry, made: &Made) -> Result<(), Fault> {
    let place: PathBuf = path(made.place.clone());
    if place == entry.target {
        return Ok(());
    }
    let target = &*context.sides.target;
    context
        .retrying(|| target.rename(&place, &entry.target).tried(target, &entry.target, "rename into place"))
}

fn note(context: &Arc<Context>, entry: &Entry, made: Made) {
    let Made { size, mtime, crc32c, attempts, verified, finished_ms, .. } = made;
    let tally = Tally::new(&context.monitor);
    tally.copied(size);
    tally.verified(verify::bytes(verified, size));
    tally.keep();
    context.monitor.moved(size);
    // As it was when it was found: a mover that saw a later version is asked for it again, should there be another run.
    let changed = Some(entry.source.attr.ctime);
    let done = Finished { size, mtime, changed, crc32c, attempts, verified, finished_ms };
    regular::note(context, &entry.target, done);
}

/// Removes what a lost mover left in the folders of its files.
fn sweep(context: &Context, link: &Link, entries: &[Entry]) {
    // It may have made what it could not tell of; whoever goes on looks.
    context.run.strays.lock().expect("no thread panics with the lock").unknown = true;
    if context.monitor.is_stopping() {
        return;
    }
    let folders: HashSet<&Path> = entries.iter().map(|entry| entry.folder.target.path.as_path()).collect();
    for folder in folders {
        // What cannot be removed now is removed by the next run.
        let Ok(found) = context.sides.target.find(folder) else { continue };
        let Ok(listing) = context.sides.target.list(&found) else { continue };
        for left in listing.flatten().filter(|left| context.is_of_hand(&left.path, &link.name)) {
            let _ = context.sides.target.remove(&left.path);
        }
    }
}
