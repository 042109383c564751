//! An entry that is being made and does not have its name yet.
//!
//! **Invariant:** what is not published is removed again, so that a failed entry leaves nothing at the target, also of
//! a call that failed and has made it, as of a server whose answer was lost.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::context::Context;
use crate::fault::{Cause, Fault, Tried};
use crate::orphans;
use crate::tree::{self, Found};

/// What faults call it that an entry gets its name.
pub const PUBLISH: &str = "rename into place";

/// An entry under its working name; removed on drop unless it was published.
pub(crate) struct Part<'a> {
    context: &'a Context,
    path: PathBuf,
    published: bool,
}

impl<'a> Part<'a> {
    /// One that an earlier run has made.
    pub(crate) fn of_before(context: &'a Context, path: PathBuf) -> Part<'a> {
        Part { context, path, published: false }
    }

    /// Where it is until then.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is, for another process to give it its name.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.published = true;
        std::mem::take(&mut self.path)
    }

    /// Gives it, which was `made`, its name in `folder`, in place of what has it now; says what it is there.
    pub(crate) fn publish(mut self, folder: &Found, made: &Found, target: &Path) -> Result<Found, Fault> {
        let entry = Found { path: self.path.clone(), ..made.clone() };
        let published = publish(self.context, folder, &entry, target);
        // What somebody has put in the place of what had its name from the start is his.
        let is_others = published.as_ref().is_err_and(|fault| fault.cause == Cause::Changed);
        self.published = published.is_ok() || (is_others && self.path == target);
        published
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.context.give_up(std::mem::take(&mut self.path));
        }
    }
}

/// Gives `entry` the name `target` in `folder`, and says what it is there; of a folder that has the name, what passes
/// put there is taken away first.
pub(crate) fn publish(
    context: &Context,
    folder: &Found,
    entry: &Found,
    target: &Path,
) -> Result<Found, Fault> {
    let tree = &*context.sides.target;
    let rename = || if entry.path == target { Ok(()) } else { tree.rename(folder, entry, target) };
    let moved = match rename() {
        Err(Errno::ISDIR) if orphans::give_way(context, target) => rename(),
        moved => moved,
    };
    // Somebody may have put another in its place, before it had the name or after. What had it from the start is not
    // made again in place of that.
    let exhausted = entry.path == target;
    let swapped = || Err(Fault { exhausted, ..Fault::new(tree, target, PUBLISH, Cause::Changed) });
    match moved {
        Err(Errno::STALE) => return swapped(),
        moved => moved.tried(tree, target, PUBLISH)?,
    }
    // The number tells it, as long as who made it holds it open.
    match tree.find(target) {
        Ok(there) if there.attr.ino == entry.attr.ino => Ok(there),
        // It had its name, and was taken on.
        Err(Errno::NOENT | Errno::NOTDIR) if !exhausted => {
            Ok(Found { path: target.to_owned(), ..entry.clone() })
        }
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => swapped(),
        Err(errno) => Err(errno).tried(tree, target, "look up"),
    }
}

/// Makes a part at `place` with `make`, in place of whatever but a folder is there. Faults name `name`, which it is to
/// become.
pub(crate) fn make<'a, T>(
    context: &'a Context,
    (place, name): (PathBuf, &Path),
    operation: &'static str,
    make: impl Fn(&Path) -> tree::Result<T>,
) -> Result<(T, Part<'a>), Fault> {
    let part = Part { context, path: place, published: false };
    match make_afresh(context, (&part.path, name), operation, || make(&part.path)) {
        Ok(made) => Ok((made, part)),
        Err(fault) => {
            if part.path == name {
                // It may have been there before.
                part.keep();
            }
            Err(fault)
        }
    }
}

fn make_afresh<T>(
    context: &Context,
    (path, name): (&Path, &Path),
    operation: &'static str,
    make: impl Fn() -> tree::Result<T>,
) -> Result<T, Fault> {
    let target = &*context.sides.target;
    match make() {
        Err(Errno::EXIST) => {
            let there = target.find(path).tried(target, name, "look up")?;
            if there.is_folder() {
                return Err(Errno::ISDIR).tried(target, name, "replace");
            }
            target.remove(path).tried(target, name, "replace")?;
            make().tried(target, name, operation)
        }
        outcome => outcome.tried(target, name, operation),
    }
}
