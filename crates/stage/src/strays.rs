//! Parts that nobody works on any more: of earlier runs that were killed, wherever their folders are now, and of this
//! run where they could not be removed at once.
//!
//! **Invariant:** the journal forgets a folder only when every part in it was seen to be gone.

use std::collections::{HashSet, VecDeque};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::tree::Found;

/// As many entries are looked at to find folders that were moved.
const LOOKED_AT_MAX: usize = 50_000;

/// Removes what earlier runs left in the folders that they noted, and in those of `also`. Whether nothing is left.
pub(crate) fn clear(context: &Context, also: &[PathBuf]) -> bool {
    if !context.makes_parts() {
        return true;
    }
    let (mut whole, mut moved) = (true, Vec::new());
    let noted = context.journal.folders_left().into_iter();
    for (path, ino) in noted.chain(also.iter().map(|path| (path.clone(), 0))) {
        match context.sides.target.find(&path) {
            Ok(there) if there.is_folder() && (ino == 0 || there.attr.ino == ino) => {
                whole &= remarked(context, sweep(context, &there));
            }
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) if ino != 0 => moved.push((path, ino)),
            Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            found => {
                whole &= remarked(context, found.tried(&*context.sides.target, &path, "look up").map(drop))
            }
        }
    }
    whole &= moved.is_empty() || find_moved(context, &moved);
    if whole && !context.journal.keeps_parts() {
        context.journal.cleared();
    }
    whole
}

/// Removes the parts that earlier runs of this stage left in a folder, but for those that this run may go on with.
pub(crate) fn sweep(context: &Context, folder: &Found) -> Result<(), Fault> {
    let target = &*context.sides.target;
    let is_leftover = |path: &Path| {
        path.file_name().is_some_and(|name| context.is_leftover(name.as_bytes()))
            && !context.journal.is_place(path)
    };
    for entry in target.list(folder).tried(target, &folder.path, "list folder")?.flatten() {
        if is_leftover(&entry.path) {
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
    let mut strays = context.shared.strays.lock().expect("no thread panics with the lock");
    let gone = |path: &PathBuf| matches!(context.sides.target.remove(path), Ok(()) | Err(Errno::NOENT));
    strays.paths.retain(|path| !gone(path));
    for path in &strays.paths {
        let text = "it is a part that cannot be removed now; the next run of the stage does, or you may";
        context.remark(&context.sides.target.show(path), text);
    }
    if strays.paths.is_empty() && !strays.unknown && !context.journal.keeps_parts() {
        context.journal.all_cleared();
    }
}

/// Looks for folders that have other paths now: below the nearest folder that is still there, the nearest first.
fn find_moved(context: &Context, moved: &[(PathBuf, u64)]) -> bool {
    let mut wanted: HashSet<u64> = moved.iter().map(|(_, ino)| *ino).collect();
    let (mut whole, mut left) = (true, LOOKED_AT_MAX);
    let tops: HashSet<PathBuf> = moved.iter().filter_map(|(path, _)| nearest(context, path)).collect();
    for top in tops {
        let Ok(top) = context.sides.target.find(&top) else { continue };
        let (device, mut ahead) = (top.device, VecDeque::from([top]));
        while let Some(folder) = ahead.pop_front() {
            if wanted.is_empty() || left == 0 {
                break;
            }
            let Ok(entries) = context.sides.target.list(&folder) else { continue };
            for entry in entries.flatten() {
                left = left.saturating_sub(1);
                if !entry.is_folder() || entry.device != device {
                    continue;
                }
                if wanted.remove(&entry.attr.ino) {
                    whole &= remarked(context, sweep(context, &entry));
                }
                ahead.push_back(entry);
            }
        }
    }
    if left == 0 {
        for (path, _) in moved.iter().filter(|(_, ino)| wanted.contains(ino)) {
            let text = "it was moved after a run of this stage was killed; files `.forebay.*.part` in it may be removed";
            context.remark(&context.sides.target.show(path), text);
        }
    }
    // What is not found was removed, or is out of reach.
    whole
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
