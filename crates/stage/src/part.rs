//! An entry that is being made and does not have its name yet.
//!
//! **Invariant:** what is not published is removed again, so that a failed entry leaves nothing at the target, also of
//! a call that failed and has made it, as of a server whose answer was lost.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::context::Context;
use crate::fault::{Fault, Tried};
use crate::orphans;
use crate::tree::{self, Found};

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

    /// Gives it its name in `folder`, in place of what has it now.
    pub(crate) fn publish(mut self, folder: &Found, target: &Path) -> Result<(), Fault> {
        if self.path != target {
            rename(self.context, folder, &self.path, target)?;
        }
        self.published = true;
        Ok(())
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        if !self.published {
            self.context.give_up(std::mem::take(&mut self.path));
        }
    }
}

/// Gives what is at `place` the name `target` in `folder`; of a folder that has it, what passes put there is taken away
/// first.
pub(crate) fn rename(context: &Context, folder: &Found, place: &Path, target: &Path) -> Result<(), Fault> {
    let tree = &*context.sides.target;
    let moved = match tree.rename(folder, place, target) {
        Err(Errno::ISDIR) if orphans::give_way(context, target) => tree.rename(folder, place, target),
        moved => moved,
    };
    moved.tried(tree, target, "rename into place")
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
