//! Walks a folder of the source to its end, makes its folders at the target and queues the rest.
//!
//! Folders that were listed are looked at again when all are: what was moved meanwhile from a folder that was not
//! listed yet into one that was is in neither list.
//!
//! **Invariant:** a walk ends without a failure only if the folders of the source were, at one moment after all of them
//! were listed, as they were listed, or have got nothing since but files.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use model::Ino;
use rustix::io::Errno;

use super::again::{self, Seen, Walked};
use super::queue;
use crate::context::Context;
use crate::entry::Folder;
use crate::fault::{Cause, Fault, Tried};
use crate::folder::{self, MODE_MEANWHILE, make_usable, release};
use crate::journal::Inode;
use crate::orphans;
use crate::run::Run;
use crate::strays;
use crate::tree::{self, Found, New};

/// How often folders that were changed are listed again.
const TURNS: usize = 4;

/// Queues everything below `source`, which becomes `folder`.
///
/// Once the buffer is full nothing more is made or queued, but the walk goes on and counts, so that the error can say
/// how much there is.
pub(super) fn walk(run: &Arc<Run>, source: Found, folder: Arc<Folder>) {
    let mut walked = Vec::new();
    descend(run, vec![(source, folder)], &mut walked);
    until_at_rest(run, walked);
}

/// Queues everything in these folders and below, and notes how each of them was then.
fn descend(run: &Arc<Run>, mut ahead: Vec<(Found, Arc<Folder>)>, walked: &mut Vec<Walked>) {
    while let Some((source, folder)) = ahead.pop() {
        let mut walk = Walked::of(source, &folder);
        let is_listed = level(run, &mut walk, folder, &mut ahead);
        if run.monitor.is_cancelled() {
            return;
        }
        walked.extend(is_listed.then_some(walk));
    }
}

/// Queues what is news in a folder, and lets go of it. Whether it could be listed.
fn level(
    run: &Arc<Run>,
    walk: &mut Walked,
    folder: Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
) -> bool {
    let listed = try_level(run, walk, &folder, ahead);
    if let Err(fault) = &listed {
        folder::fail(run, &folder, fault);
    }
    walk.seen.end_turn();
    release(run, folder);
    listed.is_ok()
}

/// Lists again those that were changed since, until nothing is news, or a few times: then a folder that still is one is
/// a failure. Passes need not: another follows.
fn until_at_rest(run: &Arc<Run>, mut walked: Vec<Walked>) {
    if run.policy.while_running {
        return;
    }
    for turn in 1..=TURNS {
        let others: Vec<usize> = (0..walked.len()).filter(|index| walked[*index].is_other(run)).collect();
        if others.is_empty() || run.monitor.is_stopping() {
            return;
        }
        // What replaced an entry is copied after that.
        run.queue.wait_until_idle();
        let (mut ahead, mut news) = (Vec::new(), 0);
        for index in others {
            let walk = &mut walked[index];
            let before = walk.seen.count();
            let folder = match walk.folder(run) {
                Ok(folder) => folder,
                Err(fault) => return run.fail(&fault),
            };
            if !level(run, walk, folder, &mut ahead) {
                return;
            }
            news += walk.seen.count() - before;
        }
        if let Some((found, folder)) = ahead.first().filter(|_| turn == TURNS) {
            let tree = &*run.sides.source;
            folder::fail(run, folder, &Fault::new(tree, &found.path, "list folder", Cause::Changed));
        }
        descend(run, ahead, &mut walked);
        if news == 0 {
            return;
        }
    }
}

/// Lists a folder, again if it was changed meanwhile, until its list is one that it had at one moment.
fn try_level(
    run: &Arc<Run>,
    Walked { source, version, seen, .. }: &mut Walked,
    folder: &Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
) -> Result<(), Fault> {
    let tree = &*run.sides.source;
    let look = || again::version(run, source).tried(tree, &source.path, "look at folder");
    run.retrying(|| {
        let before = look()?;
        list(run, source, folder, ahead, seen)?;
        if run.monitor.is_stopping() || look()? == before {
            *version = seen.is_whole().then_some(before);
            return Ok(());
        }
        Err(Fault::new(tree, &source.path, "list folder", Cause::Changed))
    })
}

/// Queues the entries of a folder that are news.
fn list(
    run: &Arc<Run>,
    source: &Found,
    folder: &Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
    seen: &mut Seen,
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
        let is_news = match &entry {
            Ok(found) => seen.is_news(&found.path, found.attr.ino),
            Err((path, _)) => seen.is_news(path, Ino(0)),
        };
        if !is_news {
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
    let (made, _) = context.sides.target.make(path, New::Folder(MODE_MEANWHILE))?;
    if context.policy.while_running {
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
