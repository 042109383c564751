//! Single entries with a stage's guarantees, for who knows by itself what is to be copied and when: the drainer.
//!
//! ```text
//! caller: what, when, again? -> Publisher: part, data, fsync, read back, metadata, rename
//!                            -> caller: sync_folder, then "done"
//! ```
//!
//! **Invariant:** what [`Publisher::publish`] returned for has its name at the target, verified; that the name survives
//! a power loss is said only after [`Publisher::sync_folder`].

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use model::phase::Direction;
use rustix::io::Errno;
use wire::data::{FileKind, Time};
use wire::node::{StagePolicy, Verify};

use crate::context::Context;
pub use crate::context::{PART_SUFFIX, TAKEN_SUFFIX};
use crate::entry::{Entry, Folder, Role};
use crate::fault::{Fault, Tried};
use crate::journal::{Journal, JournalError};
use crate::monitor::Monitor;
use crate::pace::Pace;
pub use crate::part::PUBLISH;
use crate::plan;
use crate::run::Run;
use crate::sides::Sides;
use crate::tree::{Found, Source, Target, split};
use crate::{regular, special, strays, verify};

/// Copies one entry at a time from `source` to `target`; several threads may at once, but not to one name.
pub struct Publisher {
    run: Arc<Run>,
    /// Folders of the target that are there and hold no parts of earlier runs.
    ready: Mutex<HashMap<PathBuf, Found>>,
    /// What earlier publishers left was looked for.
    cleared: Mutex<bool>,
}

/// What an entry is at the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its size, bytes.
    pub size: u64,
    /// Its time of change: the source's.
    pub mtime: Time,
    /// CRC32C of its contents; `None` for what has none.
    pub crc32c: Option<u32>,
    /// What the target refuses of its owner and attributes.
    pub left_out: Vec<String>,
}

impl Publisher {
    /// Works under the name `id`, which no other publisher to this target may have, with the rights of the threads that
    /// call. Remarks go to the journal at `journal`.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub fn open(
        id: &str,
        journal: &Path,
        source: Arc<dyn Source>,
        target: Arc<dyn Target>,
    ) -> Result<Publisher, JournalError> {
        let journal = Journal::of_entries(journal, id)?;
        let monitor = Arc::new(Monitor::new(&StagePolicy::default()));
        let sides = Sides::new(Direction::Out, source, target, &monitor);
        let mut context = Context::new(id, sides, journal, &monitor);
        context.shared.left_out = Some(Mutex::default());
        let run = Arc::new(Run::new(context));
        Ok(Publisher { run, ready: Mutex::default(), cleared: Mutex::default() })
    }

    /// Copies the file, symbolic link or pipe `source` to the name `target`, making the folders above. One try: who
    /// knows whether the source still is what it was decides about the next.
    ///
    /// # Errors
    /// [`Fault`]; the target is as it was.
    pub fn publish(&self, source: Found, target: &Path) -> Result<Published, Fault> {
        let run = &self.run;
        let (above, name) = split(target).tried(&*run.sides.target, target, "drain to")?;
        let folder = self.folder(above)?;
        let target = folder.path.join(name);
        let entry = Entry { source, target, folder: Folder::existing(folder), role: Role::Alone };
        let outcome = self.publish_entry(&entry);
        if outcome.as_ref().is_err_and(|fault| fault.errno() == Some(Errno::NOENT)) {
            self.lock().remove(above);
        }
        // Also of an attempt that failed.
        let left_out = self.take_left_out(&entry.target);
        outcome.map(|published| Published { left_out, ..published })
    }

    fn publish_entry(&self, entry: &Entry) -> Result<Published, Fault> {
        let (run, left_out) = (&self.run, Vec::new());
        match entry.source.attr.kind {
            FileKind::Regular => regular::attempt(run, entry, 1).map(|staged| Published {
                size: staged.done.size,
                mtime: staged.done.mtime,
                crc32c: Some(staged.done.crc32c),
                left_out,
            }),
            _ => special::stage(run, entry).map(|()| Published {
                size: entry.source.attr.size,
                mtime: entry.source.attr.mtime,
                crc32c: None,
                left_out,
            }),
        }
    }

    fn take_left_out(&self, target: &Path) -> Vec<String> {
        let left_out = self.run.shared.left_out.as_ref();
        let taken =
            left_out.and_then(|all| all.lock().expect("no thread panics with the lock").remove(target));
        taken.unwrap_or_default()
    }

    /// Removes the parts that earlier publishers of this name left where they were killed, also in the folders of
    /// `also`, and has decided about what they had taken: again, until all of it could be looked at.
    pub fn clear(&self, also: impl FnOnce() -> Vec<PathBuf>) {
        let mut cleared = self.cleared.lock().expect("no thread panics with the lock");
        if !*cleared {
            *cleared = strays::clear(&self.run, &also());
        }
    }

    /// A name beside `target` that nothing has, and that the next publisher looks for where this one is killed.
    pub fn beside(&self, target: &Path) -> PathBuf {
        self.run.workplace(target)
    }

    /// Has what is being copied given up soon: nothing of it stays at the target.
    pub fn give_up(&self) {
        self.run.monitor.cancel();
    }

    /// Says, when nobody publishes any more, that nothing is left.
    pub fn end(&self) {
        self.abandon();
        strays::end(&self.run);
    }

    /// Removes what earlier publishers began of files that nobody has asked for since: they have other names now, or
    /// none.
    pub fn abandon(&self) {
        for place in self.run.journal.abandoned() {
            self.run.give_up(place);
        }
    }

    /// Bytes that were copied and that were read back so far, also those of copies under way; not those of attempts
    /// that failed.
    pub fn worked(&self) -> u64 {
        let progress = self.run.monitor.progress();
        progress.bytes_done + progress.bytes_verified
    }

    /// The same of one file of this size.
    pub fn work_of(&self, size: u64) -> u64 {
        size + verify::bytes(self.run.policy.verify, size)
    }

    /// Whether only samples are read back of a file of this size.
    pub fn samples(&self, size: u64) -> bool {
        verify::of_size(self.run.policy.verify, size) == Verify::Sampled
    }

    /// How fast it may go.
    pub fn pace(&self) -> &Pace {
        &self.run.monitor.pace
    }

    /// Makes what was published in a folder of the target survive a power loss.
    ///
    /// # Errors
    /// The target's fault.
    pub fn sync_folder(&self, folder: &Path) -> Result<(), Fault> {
        let target = &*self.run.sides.target;
        target.sync_folder(folder).tried(target, folder, "fsync folder")
    }

    /// The folder may have been removed: it is made again when it is needed.
    pub fn forget_folder(&self, folder: &Path) {
        self.lock().remove(folder);
    }

    /// The folder `path` of the target, made if it is missing.
    fn folder(&self, path: &Path) -> Result<Found, Fault> {
        // Held meanwhile: two threads must not make one folder.
        let mut ready = self.lock();
        if let Some(folder) = ready.get(path) {
            return Ok(folder.clone());
        }
        let folder = plan::ensure(&self.run, path)?;
        // Another may have had the path before.
        self.run.journal.note_folder(&folder.path, folder.attr.ino);
        strays::sweep(&self.run, &folder)?;
        ready.insert(path.to_owned(), folder.clone());
        Ok(folder)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Found>> {
        self.ready.lock().expect("no thread panics with the lock")
    }
}
