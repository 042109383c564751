//! What a mover does with an order: copies blocks, reads them back, or copies whole files up to their names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::data::Attr;
use wire::mover::{Answer, Known, Made, Outcome, Part, WholeFile};

use crate::batch;
use crate::content::{self, Opened};
use crate::context::Context;
use crate::fault::{Cause, Fault, Tried};
use crate::movers::record::{self, bytes, path, runs};
use crate::regular::{self, Copy};
use crate::run::Run;
use crate::tree::{Found, Tree};

/// Why something is not done.
pub(super) enum Refused {
    Foreign(String),
    Fault(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused::Fault(fault)
    }
}

pub(super) fn sums(outcome: Result<Vec<u32>, Refused>) -> Answer {
    match outcome {
        Ok(sums) => Answer::Sums(sums),
        Err(Refused::Foreign(why)) => Answer::Foreign(why),
        Err(Refused::Fault(fault)) => Answer::Failed(record::sent(&fault)),
    }
}

/// Copies blocks onto stable storage.
pub(super) fn copy(context: &Context, part: Part) -> Result<Vec<u32>, Refused> {
    let (source, made) = (&*context.sides.source, &*context.sides.target);
    let found = recognise(source, &part.source)?;
    let place = recognise(made, &part.made)?;
    let (name, runs) = (path(part.target), runs(&part.runs));
    let file = source.open(&found).tried(source, &found.path, "open for reading")?;
    let from = Opened {
        tree: context.sides.source.clone(),
        path: found.path,
        file: file.into(),
        sparse: part.sparse,
    };
    let file = made.reopen(&place).tried(made, &name, "open for writing")?;
    let to = Opened { tree: context.sides.target.clone(), path: name, file: file.into(), sparse: false };
    let sums = content::copy(context, &from, &to, found.attr.size, &runs, |piece| {
        if matches!(piece, content::Piece::Data(..)) {
            context.pace_here(piece.length());
        }
    })?;
    to.file.sync().tried(made, &to.path, "fsync")?;
    to.file.close().tried(made, &to.path, "close")?;
    Ok(sums)
}

/// Reads blocks of the copy back.
pub(super) fn read_back(context: &Context, part: Part) -> Result<Vec<u32>, Refused> {
    let made = &*context.sides.target;
    let place = recognise(made, &part.made)?;
    let name = path(part.target);
    let file = made.open(&place).tried(made, &name, "open for reading")?;
    file.forget_cached().tried(made, &name, "drop the cache of")?;
    let from: Opened =
        Opened { tree: context.sides.target.clone(), path: name, file: file.into(), sparse: part.sparse };
    let size = part.source.attr.size;
    Ok(content::read(context, &from, size, &runs(&part.runs), |piece| {
        context.pace_reading_here(from.tree.side(), piece.length());
        Ok(())
    })?)
}

/// Copies whole files, up to their names.
pub(super) fn all_of(run: &Arc<Run>, files: Vec<WholeFile>) -> Vec<Outcome> {
    let recognised: Vec<_> = files.into_iter().map(|file| recognise_both(run, file)).collect();
    let tasks = recognised.iter().flatten().map(|(_, source, target)| (source, target.as_path())).collect();
    let folder = recognised.iter().flatten().map(|(folder, ..)| folder).next();
    let made = folder.map(|folder| batch::make(run, folder, tasks));
    let mut made = made.into_iter().flatten();
    let mut outcomes = Vec::new();
    for known in &recognised {
        outcomes.push(match known {
            Ok((_, source, target)) => {
                let made = made.next().expect("a batch tells of each of its files");
                finished(run, source, target, made)
            }
            Err(Refused::Foreign(why)) => Outcome::Foreign(why.clone()),
            Err(Refused::Fault(fault)) => Outcome::Failed(record::sent(fault)),
        });
    }
    outcomes
}

/// The folder and the source as they are here, and the name.
fn recognise_both(context: &Context, file: WholeFile) -> Result<(Found, Found, PathBuf), Refused> {
    let folder = recognise(&*context.sides.target, &file.folder)?;
    let source = recognise(&*context.sides.source, &file.source)?;
    Ok((folder, source, path(file.target)))
}

/// What became of a file that was in a batch, after more tries if need be.
fn finished(run: &Arc<Run>, source: &Found, target: &Path, made: batch::Made<'_>) -> Outcome {
    let kept = |copy: Copy<'_>| (copy.made, copy.part.keep(), copy.done);
    let mut attempts = u32::from(!matches!(made, batch::Made::Alone));
    let again = || {
        attempts += 1;
        regular::make(run, source, target, attempts).map(kept)
    };
    let outcome = match made {
        batch::Made::Copy(copy) => Ok(kept(*copy)),
        batch::Made::Failed(fault) => run.retrying_after(Err(fault), again),
        batch::Made::Alone => run.retrying(again),
    };
    match outcome {
        Ok((made, place, done)) => Outcome::Made(Made {
            place: bytes(&place),
            attr: made.attr,
            size: done.size,
            mtime: done.mtime,
            crc32c: done.crc32c,
            attempts: done.attempts,
            verified: done.verified,
            finished_ms: done.finished_ms,
        }),
        // Not tried again as nobody could hear of this host: the coordinator does.
        Err(fault) if fault.may_pass() && !fault.exhausted && run.monitor.is_stopping() => {
            Outcome::Failed(record::sent(&Fault { cause: Cause::Stopped, ..fault }))
        }
        Err(fault) => Outcome::Failed(record::sent(&fault)),
    }
}

/// The entry as it is here, if it is in the tree that the coordinator means. Which version it is what is read says.
fn recognise(tree: &dyn Tree, known: &Known) -> Result<Found, Refused> {
    let place = path(known.path.clone());
    let foreign = |what: &str| Refused::Foreign(format!("{} {what} there", tree.show(&place)));
    let found = tree.find(&place).map_err(|errno| foreign(&format!("cannot be looked up ({errno})")))?;
    let is_same = |attr: &Attr| (attr.ino, attr.kind) == (known.attr.ino, known.attr.kind);
    if is_same(&found.attr) { Ok(found) } else { Err(foreign("is another file")) }
}
