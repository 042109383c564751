//! What a stage has to do: from the directive's source and destination to entries in the queue.
//!
//! | kind | source | goes to |
//! |---|---|---|
//! | file | a file | the destination; below it, under the source's name, if it ends in a slash or is a folder |
//! | directory | a folder | its contents into the destination, whether or not either ends in a slash |
//! | list | lines of `source destination` | as for a file, each |
//! | any | a file or a folder | as for what it is |
//!
//! Folders that are missing above the destination are made.

mod again;
pub(crate) mod list;
mod walk;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use model::Ino;
use model::phase::{Direction, StageKind};
use rustix::io::Errno;
use wire::control::{ApiError, Blame, ErrorCode};
use wire::data::FileKind;
use wire::node::StageSpec;

use crate::context::Context;
use crate::drained;
use crate::entry::{Entry, Folder, Role};
use crate::fault::{Cause, Fault, Tried};
use crate::folder::{FOLDER_MODE, MODE_MEANWHILE, as_copied, make_usable, release};
use crate::pfs::ends_with_slash;
use crate::run::Run;
use crate::strays;
use crate::tree::{Found, New, if_there, split};

/// What is tried first with a source that was named.
const LOOK_UP_SOURCE: &str = "look up source";

/// Finds everything that `spec` names and queues it.
///
/// # Errors
/// The stage as a whole cannot be done: its source or its destination does not serve, or its list file has a mistake.
pub(crate) fn plan(run: &Arc<Run>, spec: &StageSpec) -> Result<(), ApiError> {
    let mut planner = Planner { run, destinations: HashMap::new(), taken: HashMap::new() };
    let outcome = match spec.kind {
        StageKind::File => {
            let (source, target) = sides(spec)?;
            planner.file(&source, &target, spec.source_ino).map_err(|fault| whole(run, &fault))
        }
        StageKind::Directory => {
            let (source, target) = sides(spec)?;
            planner.directory(&source, &target, spec.source_ino).map_err(|fault| whole(run, &fault))
        }
        StageKind::Any => {
            let (source, target) = sides(spec)?;
            planner.any(&source, &target).map_err(|fault| whole(run, &fault))
        }
        StageKind::List => planner.list(spec),
    };
    for (_, folder) in planner.destinations.drain() {
        release(run, folder);
    }
    outcome
}

/// A fault that ends the stage as a whole.
fn whole(context: &Context, fault: &Fault) -> ApiError {
    count_missing(context, fault);
    context.monitor.name_failure(fault.failure(context.sides.direction));
    fault.stage_error(context.sides.direction)
}

/// Counts a source that is not there, for who has to judge whether it is missed.
fn count_missing(context: &Context, fault: &Fault) {
    if fault.operation == LOOK_UP_SOURCE && matches!(fault.errno(), Some(Errno::NOENT | Errno::NOTDIR)) {
        context.monitor.source_missing();
    }
}

/// A path as the directive has it, with what a slash at its end means.
struct Named {
    path: PathBuf,
    ends_with_slash: bool,
}

impl Named {
    fn pfs(path: &Path) -> Named {
        Named { path: path.to_owned(), ends_with_slash: ends_with_slash(path) }
    }

    /// A path in the buffer.
    fn buffer(path: &str) -> Result<Named, ApiError> {
        let mut clean = PathBuf::new();
        for component in Path::new(path).components() {
            match component {
                Component::Normal(name) => clean.push(name),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(leads_out(path));
                }
            }
        }
        Ok(Named { path: clean, ends_with_slash: path.is_empty() || path.ends_with('/') })
    }
}

fn leads_out(path: &str) -> ApiError {
    ApiError {
        code: ErrorCode::StagePath,
        blame: Blame::User,
        message: format!("the path `{path}` leads out of the buffer"),
        advice: "name a path below the buffer's root, without `..`".to_owned(),
    }
}

fn sides(spec: &StageSpec) -> Result<(Named, Named), ApiError> {
    let (pfs, buffer) = (Named::pfs(&spec.pfs_path), Named::buffer(&spec.buffer_path)?);
    Ok(match spec.direction {
        Direction::In => (pfs, buffer),
        Direction::Out => (buffer, pfs),
    })
}

struct Planner<'a> {
    run: &'a Arc<Run>,
    /// Folders that files go to, held until all are queued: a list can name one very often.
    destinations: HashMap<PathBuf, Arc<Folder>>,
    /// Hashes of the names that files get, and of the paths of those files: a list can give one name twice by a folder
    /// or a link.
    taken: HashMap<u64, u64>,
}

impl Planner<'_> {
    /// What has the name. Where nothing has, and it is known which inode was meant, that one under whatever name.
    fn source(&self, path: &Path, ino: Option<Ino>) -> Result<Found, Fault> {
        let tree = &*self.run.sides.source;
        let ino = match (tree.locate(path), ino) {
            (Err(Errno::NOENT | Errno::NOTDIR), Some(ino)) => ino,
            (found, _) => return found.tried(tree, path, LOOK_UP_SOURCE),
        };
        match tree.known(ino, path) {
            Err(Errno::NOENT | Errno::STALE) => Err(Fault::new(tree, path, LOOK_UP_SOURCE, Cause::Removed)),
            Err(errno) => Err(errno).tried(tree, path, LOOK_UP_SOURCE),
            Ok(found) => {
                self.run.remark(&tree.show(path), "renamed after the stage was asked for; it is copied");
                Ok(found)
            }
        }
    }

    fn file(&mut self, source: &Named, target: &Named, ino: Option<Ino>) -> Result<(), Fault> {
        let run = self.run;
        let found = self.source(&source.path, ino)?;
        if found.is_folder() {
            return Err(Errno::ISDIR).tried(&*run.sides.source, &source.path, "stage as a file");
        }
        let (_, name) = split(&source.path).tried(&*run.sides.source, &source.path, "stage as a file")?;
        let there = if_there(run.sides.target.locate(&target.path));
        let there = there.tried(&*run.sides.target, &target.path, "look up")?;
        let into_folder = target.ends_with_slash || there.is_some_and(|there| there.is_folder());
        let target = if into_folder { target.path.join(name) } else { target.path.clone() };
        let (folder, name) = split(&target).tried(&*run.sides.target, &target, "stage to")?;
        let folder = self.destination(folder)?;
        let target = folder.target.path.join(name);
        let place = hash(&(folder.target.device, folder.target.attr.ino, name));
        let source = hash(&(found.device, &found.path));
        if *self.taken.entry(place).or_insert(source) != source {
            let cause = Cause::TwoSources { first: "another file of this list".to_owned() };
            return Err(Fault::new(&*run.sides.target, &target, "publish", cause));
        }
        self.queue(found, target, folder);
        Ok(())
    }

    fn any(&mut self, source: &Named, target: &Named) -> Result<(), Fault> {
        let is_folder = self.source(&source.path, None)?.is_folder();
        if is_folder { self.directory(source, target, None) } else { self.file(source, target, None) }
    }

    fn directory(&mut self, source: &Named, target: &Named, ino: Option<Ino>) -> Result<(), Fault> {
        let run = self.run;
        let found = self.source(&source.path, ino)?;
        if !found.is_folder() {
            return Err(Errno::NOTDIR).tried(&*run.sides.source, &source.path, "stage as a directory");
        }
        // Before anything is made at the target: the folder may be there and not be readable.
        drop(run.sides.source.list(&found).tried(&*run.sides.source, &source.path, "list folder")?);
        let folder = self.top(&found, &target.path)?;
        walk::walk(run, found, folder);
        Ok(())
    }

    /// The destination folder of a directory. It gets the source's metadata only if this stage makes it, now or in an
    /// earlier run: whoever made it before had their own reasons for its mode.
    fn top(&mut self, source: &Found, target: &Path) -> Result<Arc<Folder>, Fault> {
        let run = self.run;
        let there = if_there(run.sides.target.locate(target));
        if let Some(there) = there.tried(&*run.sides.target, target, "look up")? {
            strays::sweep(run, &there)?;
            if !run.journal.was_made(target) {
                return Ok(Folder::existing(there));
            }
            make_usable(run, &there);
            return Ok(Folder::top(as_copied(run, source), there));
        }
        let (above, name) = split(target).tried(&*run.sides.target, target, "stage to")?;
        let above = self.destination(above)?;
        let path = above.target.path.join(name);
        run.journal.make(target);
        run.journal.sync();
        let made = run.sides.target.make(&path, New::Folder(MODE_MEANWHILE));
        let (made, _) = made.tried(&*run.sides.target, &path, "make folder")?;
        Ok(Folder::top(as_copied(run, source), made))
    }

    /// A folder that files go to, made if it is missing, with what is missing above it.
    fn destination(&mut self, path: &Path) -> Result<Arc<Folder>, Fault> {
        if let Some(folder) = self.destinations.get(path) {
            return Ok(folder.clone());
        }
        let found = ensure(self.run, path)?;
        strays::sweep(self.run, &found)?;
        let folder = Folder::existing(found);
        self.destinations.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }

    fn queue(&self, source: Found, target: PathBuf, folder: Arc<Folder>) {
        queue(self.run, source, target, folder);
    }
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Queues anything but a folder.
fn queue(run: &Arc<Run>, source: Found, target: PathBuf, folder: Arc<Folder>) {
    run.journal.met(&target);
    let is_file = source.attr.kind == FileKind::Regular;
    if let Some(first) = holder(run, &source, &target) {
        run.monitor.found(if is_file { source.attr.size } else { 0 });
        let cause = Cause::TwoSources { first: format!("a file from {first}") };
        return run.fail(&Fault::new(&*run.sides.target, &target, "publish", cause));
    }
    let role = if is_file { run.shared.links.role(&source) } else { Role::Alone };
    if run.policy.while_running && !(role == Role::Alone && drained::is_due(run, &source, &target)) {
        return;
    }
    // Further names of a file bring no bytes.
    run.monitor.found(if is_file && role != Role::Other { source.attr.size } else { 0 });
    if !run.monitor.is_stopping() {
        run.queue.push(Entry { source, target, folder, role });
    }
}

/// From where another stage of the same job has copied what has the name, if that is another file.
fn holder<'a>(run: &'a Run, source: &Found, target: &Path) -> Option<&'a str> {
    // A pass takes no name that others have. What is staged in stays on the PFS: a later stage may put single files
    // over those of a folder.
    let siblings = run.journal.siblings();
    if run.policy.while_running || run.sides.direction == Direction::In || siblings.is_empty() {
        return None;
    }
    let there = run.sides.target.find(target).ok()?;
    siblings.holder(&there, target, &source.attr, &run.sides.source.show(&source.path))
}

/// The folder at `path`, made if it is missing, with what is missing above it.
pub(crate) fn ensure(context: &Context, path: &Path) -> Result<Found, Fault> {
    let target = &*context.sides.target;
    let there = || match target.locate(path) {
        Ok(there) if there.is_folder() => Ok(Some(there)),
        Ok(_) => Err(Errno::NOTDIR).tried(target, path, "make folder"),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno).tried(target, path, "look up folder"),
    };
    if let Some(there) = there()? {
        return Ok(there);
    }
    let (above, name) = split(path).tried(target, path, "make folder")?;
    let above = ensure(context, above)?;
    let (made, _) = match target.make(&above.path.join(name), New::Folder(FOLDER_MODE)) {
        // Another stage, or another node's drainer, has made it just now; or a symbolic link leads nowhere.
        Err(Errno::EXIST) => match there()? {
            Some(there) => return Ok(there),
            None => return Err(Errno::EXIST).tried(target, path, "make folder"),
        },
        made => made.tried(target, path, "make folder")?,
    };
    target.sync_folder(&above.path).tried(target, &above.path, "fsync folder")?;
    Ok(made)
}
