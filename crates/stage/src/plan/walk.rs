//! Walks a folder of the source to its end, makes its folders at the target and queues the rest.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::{FOLDER_MODE_MEANWHILE, make_usable, queue};
use crate::context::Context;
use crate::entry::Folder;
use crate::fault::{Cause, Fault, Tried};
use crate::folder::{self, release};
use crate::journal::Inode;
use crate::orphans;
use crate::run::Run;
use crate::strays;
use crate::tree::{self, Found, New};
use crate::version::Version;

/// Queues everything below `source`, which becomes `folder`.
///
/// Once the buffer is full nothing more is made or queued, but the walk goes on and counts, so that the error can say
/// how much there is.
pub(super) fn walk(run: &Arc<Run>, source: Found, folder: Arc<Folder>) {
    let mut ahead = vec![(source, folder)];
    while let Some((source, folder)) = ahead.pop() {
        if let Err(fault) = level(run, &source, &folder, &mut ahead) {
            folder::fail(run, &folder, &fault);
        }
        release(run, folder);
        if run.monitor.is_cancelled() {
            return;
        }
    }
}

/// Lists a folder, again if it was changed meanwhile, until its list is one that it had at one moment.
fn level(
    run: &Arc<Run>,
    source: &Found,
    folder: &Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
) -> Result<(), Fault> {
    let tree = &*run.sides.source;
    let version = || {
        let folder = match tree.find(&source.path) {
            // It, or a folder above it, has another name: see `Planner::source`.
            Err(Errno::NOENT | Errno::NOTDIR) => tree.known(source.attr.ino, &source.path),
            found => found,
        };
        let folder = folder.tried(tree, &source.path, "look at folder")?;
        Ok(Version::of(&folder.attr))
    };
    let mut seen = HashSet::new();
    run.retrying(|| {
        let before = version()?;
        list(run, source, folder, ahead, &mut seen)?;
        if run.monitor.is_stopping() || version()? == before {
            return Ok(());
        }
        Err(Fault::new(tree, &source.path, "list folder", Cause::Changed))
    })
}

/// Queues the entries of a folder that were not seen before, of which hashes of the names are kept.
fn list(
    run: &Arc<Run>,
    source: &Found,
    folder: &Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
    seen: &mut HashSet<u64>,
) -> Result<(), Fault> {
    for entry in run.sides.source.list(source).tried(&*run.sides.source, &source.path, "list folder")? {
        if run.monitor.is_cancelled() {
            return Ok(());
        }
        let entry = match entry {
            Err((path, errno)) if path == source.path => {
                return Err(errno).tried(&*run.sides.source, &path, "list folder");
            }
            entry => entry,
        };
        let path = entry.as_ref().map_or_else(|(path, _)| path, |found| &found.path);
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            continue;
        }
        match entry {
            Ok(entry) => take(run, entry, folder, ahead),
            Err((path, errno)) => {
                run.monitor.found(0);
                let failed: Result<(), Fault> = Err(errno).tried(&*run.sides.source, &path, "look at");
                failed.unwrap_or_else(|fault| run.fail(&fault));
            }
        }
    }
    Ok(())
}

/// Makes a folder at the target, to be walked later, or queues anything else.
fn take(run: &Arc<Run>, entry: Found, folder: &Arc<Folder>, ahead: &mut Vec<(Found, Arc<Folder>)>) {
    let name = entry.path.file_name().unwrap_or(OsStr::new("")).to_owned();
    let target = folder.target.path.join(name);
    if !entry.is_folder() {
        return queue(run, entry, target, folder.clone());
    }
    run.monitor.found(0);
    if run.monitor.is_stopping() {
        return ahead.push((entry, folder.clone()));
    }
    match run.retrying(|| make(run, &target)) {
        Ok(made) => {
            run.journal.met_folder(&target);
            if run.makes_parts() {
                run.journal.note_folder(&made.path, made.attr.ino);
            }
            let below = Folder::below(folder, entry.clone(), made);
            ahead.push((entry, below));
        }
        Err(fault) => run.fail(&fault),
    }
}

fn make_new(context: &Context, path: &Path) -> tree::Result<Found> {
    let made = context.sides.target.make(path, New::Folder(FOLDER_MODE_MEANWHILE))?;
    if context.rules.is_pass {
        context.journal.open_folder(path, Inode::of(&made));
    }
    Ok(made)
}

/// The folder at `path` of the target; what is there already is used, but not through a link, and nothing else is
/// removed for it.
fn make(context: &Context, path: &Path) -> Result<Found, Fault> {
    let target = &*context.sides.target;
    match make_new(context, path) {
        Err(Errno::EXIST) => {}
        made => return made.tried(target, path, "make folder"),
    }
    let there = target.find(path).tried(target, path, "look up folder")?;
    if !there.is_folder() {
        if orphans::give_way(context, path) {
            return make_new(context, path).tried(target, path, "make folder");
        }
        return Err(Errno::NOTDIR).tried(target, path, "make folder");
    }
    make_usable(context, &there);
    strays::sweep(context, &there)?;
    Ok(there)
}
