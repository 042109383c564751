//! What passes have published and the job has taken back: removed from the target, as a stage at the job's end would
//! not have made it. What passes copy, and when, is in `drained`.
//!
//! **Invariant:** what is removed is the very inode that a pass put there, unchanged since, reached without a symbolic
//! link below the destination. Where nobody can tell, it stays.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use rustix::io::Errno;

use crate::context::Context;
use crate::journal::{Inode, Left};
use crate::tree::{self, Found};
use crate::version;

/// Notes anew what `first`, which a pass has published, is like.
pub(crate) fn note(context: &Context, first: &Found) {
    if let Ok(there) = context.sides.target.find(&first.path)
        && version::is_same(&there, first)
    {
        context.journal.publish(&first.path, Inode::of(&there));
    }
}

/// Takes away what passes have published under names that the source does not have any more, as a stage at the job's
/// end would not have made them. Only after a whole walk: what was not met for another reason stays.
pub(crate) fn remove(context: &Context, destination: &Path) {
    let walked = context.monitor.progress().planned && !context.monitor.is_stopping();
    if !walked || context.shared.pass_failed.load(Ordering::Relaxed) || context.monitor.has_failures() {
        return;
    }
    let located = context.sides.target.locate(destination);
    let top = located.map_or_else(|_| destination.to_owned(), |there| there.path);
    for (path, taken) in take_back(context, &top, context.journal.left_below(Path::new("/"))) {
        let text = match taken {
            _ if context.policy.while_running => continue,
            Taken::Removed => {
                "published while the job ran, and removed as the job has removed or renamed it".to_owned()
            }
            Taken::Kept(why) => {
                format!("published while the job ran, and not in the source any more; it stays: {why}")
            }
        };
        context.remark(&context.sides.target.show(&path), &text);
    }
}

/// Takes away what passes have put at and below `path`, where the source has something else by now, a folder for a file
/// or the other way round; says whether the name is free.
pub(crate) fn give_way(context: &Context, path: &Path) -> bool {
    let left = context.journal.left_below(path);
    if left.files.is_empty() && left.folders.is_empty() {
        return false;
    }
    let above = path.parent().unwrap_or(path);
    for (path, taken) in take_back(context, above, left) {
        if let Taken::Kept(why) = taken
            && !context.policy.while_running
        {
            let text = format!("published while the job ran, and replaced by the job; it stays: {why}");
            context.remark(&context.sides.target.show(&path), &text);
        }
    }
    context.sides.target.find(path).is_err_and(|errno| errno == Errno::NOENT)
}

/// What became of a file that a pass had published and that is still there.
enum Taken {
    Removed,
    Kept(String),
}

/// Takes files and folders away as far as they are still what passes put there; tells of the files.
fn take_back(context: &Context, top: &Path, left: Left) -> Vec<(PathBuf, Taken)> {
    let mut taken = Vec::new();
    for (path, inode) in left.files {
        taken.extend(take_file(context, top, &path, inode).map(|became| (path, became)));
    }
    let target = &*context.sides.target;
    for (path, inode) in left.folders {
        let there = target.find(&path);
        let is_ours = there.is_ok_and(|there| there.is_folder() && inode.is(&Inode::of(&there)));
        if is_ours && leads_there(context, top, &path) == Ok(true) {
            // One that holds what others made stays.
            let _ = target.remove_folder(&path);
        }
    }
    taken
}

/// `None`: it is not there any more.
fn take_file(context: &Context, top: &Path, path: &Path, noted: Option<Inode>) -> Option<Taken> {
    let target = &*context.sides.target;
    let kept = |why: &str| Some(Taken::Kept(why.to_owned()));
    match leads_there(context, top, path) {
        Ok(true) => {}
        Ok(false) => return kept("a folder above it has become something else"),
        Err(Errno::NOENT | Errno::NOTDIR) => return None,
        Err(errno) => return kept(&format!("it cannot be looked up: {errno}")),
    }
    match target.find(path) {
        Err(Errno::NOENT | Errno::NOTDIR) => return None,
        Err(errno) => return kept(&format!("it cannot be looked up: {errno}")),
        Ok(there) if noted == Some(Inode::of(&there)) => {}
        Ok(_) => {
            return kept("somebody else has put it there or changed it since; remove it if it is not needed");
        }
    }
    match target.remove(path) {
        Ok(()) => Some(Taken::Removed),
        Err(Errno::NOENT) => None,
        Err(errno) => kept(&format!("it cannot be removed: {errno}")),
    }
}

/// Whether everything between `top` and `path` is a folder, not a link to one. Above `top` links are the user's.
fn leads_there(context: &Context, top: &Path, path: &Path) -> tree::Result<bool> {
    for above in path.ancestors().skip(1).take_while(|above| *above != top && above.starts_with(top)) {
        if !context.sides.target.find(above)?.is_folder() {
            return Ok(false);
        }
    }
    Ok(true)
}
