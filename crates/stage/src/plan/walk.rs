//! Walks a folder of the source to its end, makes its folders at the target and queues the rest.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::{FOLDER_MODE_MEANWHILE, make_usable, queue, sweep};
use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::folder::{Folder, release};
use crate::tree::{Found, New};

/// Queues everything below `source`, which becomes `folder`.
///
/// Once the buffer is full nothing more is made or queued, but the walk goes on and counts, so that the error can say
/// how much there is.
pub(super) fn walk(context: &Arc<Context>, source: Found, folder: Arc<Folder>) {
    let mut ahead = vec![(source, folder)];
    while let Some((source, folder)) = ahead.pop() {
        if let Err(fault) = level(context, &source, &folder, &mut ahead) {
            folder.fail(context, &fault);
        }
        release(context, folder);
        if context.monitor.is_cancelled() {
            return;
        }
    }
}

fn level(
    context: &Arc<Context>,
    source: &Found,
    folder: &Arc<Folder>,
    ahead: &mut Vec<(Found, Arc<Folder>)>,
) -> Result<(), Fault> {
    for entry in context.source.list(source).tried(&*context.source, &source.path, "list folder")? {
        if context.monitor.is_cancelled() {
            return Ok(());
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err((path, errno)) if path == source.path => {
                return Err(errno).tried(&*context.source, &path, "list folder");
            }
            Err((path, errno)) => {
                context.monitor.found(0);
                let failed: Result<(), Fault> = Err(errno).tried(&*context.source, &path, "look at");
                failed.unwrap_or_else(|fault| context.fail(&fault));
                continue;
            }
        };
        let name = entry.path.file_name().unwrap_or(OsStr::new("")).to_owned();
        let target = folder.target.path.join(name);
        if !entry.is_folder() {
            queue(context, entry, target, folder.clone());
            continue;
        }
        context.monitor.found(0);
        if context.monitor.is_stopping() {
            ahead.push((entry, folder.clone()));
            continue;
        }
        match context.retrying(|| make(context, &target)) {
            Ok(made) => {
                let below = Folder::below(folder, entry.clone(), made);
                ahead.push((entry, below));
            }
            Err(fault) => context.fail(&fault),
        }
    }
    Ok(())
}

/// The folder at `path` of the target; what is there already is used, but not through a link, and nothing else is
/// removed for it.
fn make(context: &Context, path: &Path) -> Result<Found, Fault> {
    let target = &*context.target;
    match target.make(path, New::Folder(FOLDER_MODE_MEANWHILE)) {
        Err(Errno::EXIST) => {}
        made => return made.tried(target, path, "make folder"),
    }
    let there = target.find(path).tried(target, path, "look up folder")?;
    if !there.is_folder() {
        return Err(Errno::NOTDIR).tried(target, path, "make folder");
    }
    make_usable(context, &there);
    sweep(context, &there)?;
    Ok(there)
}
