//! Parts that nobody works on any more: of earlier runs that were killed, wherever their folders are now, and of this
//! run where they could not be removed at once.
//!
//! **Invariant:** the journal forgets a folder only when every part in it was seen to be gone, or its user was told
//! that parts may be left where the search could not look.

use std::collections::{HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use model::Ino;
use rustix::io::Errno;

use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::journal::Noted;
use crate::tree::{self, Found};

/// As many entries are looked at to find folders that were moved.
const LOOKED_AT_MAX: usize = 50_000;

/// Whose parts are removed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Those of earlier runs, but for what this one may go on with.
    EarlierRuns,
    /// All, now that nobody makes any.
    AllRuns,
}

/// Removes what earlier runs left in the folders that they noted, and in those of `also`. Whether nothing is left.
pub(crate) fn clear(context: &Context, also: &[PathBuf]) -> bool {
    if !context.makes_parts() {
        return true;
    }
    let mut noted = context.journal.folders_left();
    noted.extend(also.iter().map(|path| Noted::of(path, Ino(0))));
    let whole = clear_noted(context, noted, Of::EarlierRuns);
    if whole && !context.journal.keeps_parts() {
        context.journal.cleared(context.sides.target.undecided());
    }
    whole
}

/// A later folder may have the number of one that is gone: that costs a look, as only what is called as a part of this
/// stage is removed.
fn clear_noted(context: &Context, noted: Vec<Noted>, of: Of) -> bool {
    let (mut whole, mut moved) = (true, Vec::new());
    for noted in noted {
        let (path, ino) = (&noted.path, noted.ino);
        match context.sides.target.find(path) {
            Ok(there) if there.is_folder() && (ino == Ino(0) || there.attr.ino == ino) => {
                whole &= remarked(context, sweep_of(context, &there, of));
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) if ino != Ino(0) => moved.push(noted),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            found => {
                whole &= remarked(context, found.tried(&*context.sides.target, path, "look up").map(drop))
            }
        }
    }
    whole & (moved.is_empty() || find_moved(context, &moved, of))
}

/// Removes the parts that earlier runs of this stage left in a folder, but for those that this run may go on with.
pub(crate) fn sweep(context: &Context, folder: &Found) -> Result<(), Fault> {
    sweep_of(context, folder, Of::EarlierRuns)
}

fn sweep_of(context: &Context, folder: &Found, of: Of) -> Result<(), Fault> {
    let target = &*context.sides.target;
    let is_leftover = |path: &Path| {
        path.file_name().is_some_and(|name| match of {
            Of::EarlierRuns => context.is_leftover(name.as_bytes()),
            Of::AllRuns => context.is_part(name.as_bytes()),
        }) && !context.journal.is_place(path)
    };
    for entry in target.list(folder).tried(target, &folder.path, "list folder")? {
        let entry = match entry {
            Err((_, Errno::NOENT)) => continue,
            entry => entry.or_else(|(path, errno)| Err(errno).tried(target, &path, "look up"))?,
        };
        if entry.path.file_name().is_some_and(|name| context.is_taken(name.as_bytes())) {
            target.settle_taken(&entry.path).tried(target, &entry.path, "put back")?;
        } else if is_leftover(&entry.path) {
            match target.remove(&entry.path) {
                Err(Errno::NOENT) => {}
                removed => removed.tried(target, &entry.path, "remove left-over")?,
            }
        }
    }
    Ok(())
}

/// Ends a run: removes what it could not remove before, and says in the journal if nothing is left.
pub(crate) fn end(context: &Context) {
    if context.shared.strays.lock().expect("no thread panics with the lock").missed {
        let cleared = clear_noted(context, context.journal.folders_held(), Of::AllRuns);
        context.shared.strays.lock().expect("no thread panics with the lock").unknown |= !cleared;
    }
    let mut strays = context.shared.strays.lock().expect("no thread panics with the lock");
    let gone = |path: &PathBuf| matches!(context.sides.target.remove(path), Ok(()) | Err(Errno::NOENT));
    strays.paths.retain(|path| !gone(path));
    for path in &strays.paths {
        let text = "it is a part that cannot be removed now; the next run of the stage does, or you may";
        context.remark(&context.sides.target.show(path), text);
    }
    if strays.paths.is_empty() && !strays.unknown && !context.journal.keeps_parts() {
        context.journal.all_cleared(context.sides.target.undecided());
    }
}

/// Looks for folders that have other paths now: below the nearest folder that is still there, then below those above
/// it, as far up as the one that holds the whole destination, which may have been moved itself.
fn find_moved(context: &Context, moved: &[Noted], of: Of) -> bool {
    let wanted = moved.iter().map(|noted| noted.ino).collect();
    let mut search =
        Search { context, of, wanted, seen: HashSet::new(), left: LOOKED_AT_MAX, unseen: Unseen::default() };
    let mut whole = true;
    for top in tops(context, moved) {
        let top = search.unseen.noted(context.sides.target.find(&top));
        whole &= top.is_none_or(|top| search.below(top));
    }
    let is_sure = search.left > 0 && !search.unseen.any;
    for Noted { path, ino, has_taken } in moved.iter().filter(|noted| search.wanted.contains(&noted.ino)) {
        if *has_taken {
            context.sides.target.miss_taken(path, *ino, is_sure);
        }
        if !is_sure {
            let text = "it was moved or removed while this stage made files in it, and is not found; files \
                        `.forebay.*.part` in it may be removed";
            context.remark(&context.sides.target.show(path), text);
        }
    }
    // What is not found was removed, or is out of reach.
    whole && (search.wanted.is_empty() || !search.unseen.again)
}

/// For folders that were moved.
struct Search<'a> {
    context: &'a Context,
    of: Of,
    wanted: HashSet<Ino>,
    seen: HashSet<(u64, Ino)>,
    /// As many entries may still be looked at.
    left: usize,
    unseen: Unseen,
}

impl Search<'_> {
    /// Removes the parts in those that are below `top`, on its file system. Whether none is left in these.
    fn below(&mut self, top: Found) -> bool {
        let (device, mut ahead, mut whole) = (top.device, VecDeque::from([top]), true);
        while let Some(folder) = ahead.pop_front() {
            if self.wanted.is_empty() || self.left == 0 {
                break;
            }
            if !self.seen.insert((folder.device, folder.attr.ino)) {
                continue;
            }
            let target = &*self.context.sides.target;
            for entry in self.unseen.noted(target.list(&folder)).into_iter().flatten() {
                self.left = self.left.saturating_sub(1);
                let entry = self.unseen.noted(entry.map_err(|(_, errno)| errno));
                let Some(entry) = entry.filter(|entry| entry.is_folder() && entry.device == device) else {
                    continue;
                };
                if self.wanted.remove(&entry.attr.ino) {
                    whole &= remarked(self.context, sweep_of(self.context, &entry, self.of));
                }
                ahead.push_back(entry);
            }
        }
        whole
    }
}

/// What a search could not look into.
#[derive(Default)]
struct Unseen {
    any: bool,
    /// The next run may be able to.
    again: bool,
}

impl Unseen {
    /// What was found; takes note of what was not, but for what is gone.
    fn noted<T>(&mut self, found: tree::Result<T>) -> Option<T> {
        let errno = match found {
            Ok(found) => return Some(found),
            Err(errno) => errno,
        };
        let is_there = !matches!(errno, Errno::NOENT | Errno::NOTDIR);
        self.any |= is_there;
        self.again |= is_there && errno != Errno::ACCESS;
        None
    }
}

/// Where folders are looked for that were at these paths.
fn tops(context: &Context, moved: &[Noted]) -> Vec<PathBuf> {
    let shortest = context.journal.folders_left().into_iter().chain(context.journal.folders_held());
    let shortest = shortest.map(|noted| noted.path).min_by_key(|path| path.components().count());
    // A destination in which no part is made by itself lies above the shortest, and one above that is what holds it.
    let highest = shortest.and_then(|path| nearest(context, path.parent()?));
    let mut tops: Vec<PathBuf> = moved.iter().filter_map(|noted| nearest(context, &noted.path)).collect();
    let mut at = 0;
    while let Some(above) = tops.get(at).and_then(|top| top.parent()).map(Path::to_owned) {
        if highest.as_ref().is_some_and(|highest| above.starts_with(highest)) && !tops.contains(&above) {
            tops.push(above);
        }
        at += 1;
    }
    tops
}

fn nearest(context: &Context, path: &Path) -> Option<PathBuf> {
    let above = path.ancestors().skip(1);
    let is_folder = |path: &&Path| context.sides.target.find(path).is_ok_and(|found| found.is_folder());
    above.take_while(|path| path.parent().is_some()).find(is_folder).map(Path::to_owned)
}

fn remarked(context: &Context, outcome: Result<(), Fault>) -> bool {
    match outcome {
        Ok(()) => true,
        Err(fault) => {
            context.remark(&fault.path, &format!("{}: {}; a part may be left", fault.operation, fault.cause));
            false
        }
    }
}
