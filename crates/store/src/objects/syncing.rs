//! Syncs of the objects of one namespace, and which of its open objects have unsynced writes.
//!
//! An object with unsynced writes stays open: an error of writing back is told to the descriptors that were open when
//! it happened, and to nobody once the kernel has forgotten the file. When many such objects are open beyond the
//! cache's size, they are synced in the background, and can then be closed.
//!
//! **Invariant:** a failure is in [`SyncErrors`] before any sync of the same object that began after it ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use model::Ino;

use super::sync_errors::SyncErrors;
use super::whole_sync::WholeSync;
use crate::verifier::Verifier;

/// What is to be known of an open object's writes.
#[derive(Debug, Default)]
pub struct Pending {
    /// Something was written since the last sync began.
    unsynced: AtomicBool,
    /// How often the whole file system failed to sync, which may have been about this object.
    suspected: AtomicU64,
    /// How many of these times a sync of the object itself has followed.
    heard: AtomicU64,
    /// Held by who syncs it: a second sync, which the kernel tells nothing, must not end before what the first was told
    /// is known.
    syncing: Mutex<()>,
}

impl Pending {
    /// Something is about to be written. A sync that is under way may or may not have it: what was written is unsynced
    /// until one has begun after what this gives was dropped.
    pub fn writing(&self) -> Writing<'_> {
        self.note_unsynced();
        Writing(self)
    }

    /// No sync of it is known to have succeeded.
    pub fn note_unsynced(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// It is about to be synced with others; whether it had to be. If that fails, [`Pending::note_unsynced`] takes it
    /// back.
    pub fn take_unsynced(&self) -> bool {
        self.unsynced.swap(false, Ordering::AcqRel)
    }

    /// Whether the object must stay open.
    pub fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire) || self.is_suspect()
    }

    /// The file system has lost bytes of some object.
    pub fn suspect(&self) {
        self.suspected.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether a sync of the object itself must tell whether it was about this one.
    pub fn is_suspect(&self) -> bool {
        self.suspected.load(Ordering::Acquire) != self.heard.load(Ordering::Acquire)
    }
}

/// A write that is under way, until it is dropped.
#[must_use]
pub struct Writing<'a>(&'a Pending);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.note_unsynced();
    }
}

/// An open object that is to be synced.
pub trait Syncable: Send + Sync + 'static {
    /// Its bytes.
    fn file(&self) -> &File;
    /// What is known of its writes.
    fn pending(&self) -> &Pending;
}

/// The syncs of a namespace's objects.
#[derive(Debug)]
pub struct Syncs {
    /// Where the objects have a file system of their own that tells of its errors.
    whole: Option<WholeSync>,
    errors: SyncErrors,
    verifier: Arc<Verifier>,
    retiring: AtomicBool,
    /// Who hears of each failure.
    heard: OnceLock<Sender<Ino>>,
}

impl Syncs {
    /// For the objects below `root`; `own`: they have the file system for themselves.
    ///
    /// # Errors
    /// The errno of `open`.
    pub fn new(root: &Path, own: bool, verifier: Arc<Verifier>) -> io::Result<Syncs> {
        let whole = if own { WholeSync::of(root)? } else { None };
        let (errors, retiring, heard) = (SyncErrors::default(), AtomicBool::new(false), OnceLock::new());
        Ok(Syncs { whole, errors, verifier, retiring, heard })
    }

    /// Gets each object from now on of which a sync fails. The first call counts.
    pub fn failures(&self) -> Receiver<Ino> {
        let (sender, receiver) = mpsc::channel();
        let _set = self.heard.set(sender);
        receiver
    }

    /// The commit verifier of the fragment.
    pub fn verifier(&self) -> u64 {
        self.verifier.number()
    }

    /// Something was lost, and it is not known of which object: the next start has another commit verifier.
    pub fn renounce(&self) {
        self.verifier.renounce();
    }

    /// What failed, until everybody was told.
    pub fn errors(&self) -> &SyncErrors {
        &self.errors
    }

    /// Syncs the objects' whole file system, if they have one of their own; `suspect` is called first where that fails.
    /// Returns whether all that was written is safe.
    pub fn whole(&self, suspect: impl Fn()) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.sync(suspect).is_ok())
    }

    /// Syncs one object. How it failed is in [`Syncs::errors`] then.
    pub fn object(&self, ino: Ino, object: &impl Syncable, path: &Path) {
        let pending = object.pending();
        let _alone = pending.syncing.lock().expect(POISON);
        let suspected = pending.suspected.load(Ordering::Acquire);
        pending.unsynced.store(false, Ordering::Release);
        if let Err(error) = object.file().sync_all() {
            self.failed(ino, path, &error);
        }
        pending.heard.store(suspected, Ordering::Release);
    }

    /// A sync of an object failed, through whichever descriptor: whoever syncs it is told.
    pub fn failed(&self, ino: Ino, path: &Path, error: &io::Error) {
        tracing::error!(path = %path.display(), %error, "what was written to the object is lost");
        self.errors.failed(ino, error);
        // Whoever hears of it may be gone, as at the end of this process.
        let _heard = self.heard.get().map(|heard| heard.send(ino));
        // Should this process end before everybody was told.
        self.verifier.renounce();
    }

    /// Syncs objects in the background, unless that is under way. Whoever waits for room may close those that wait here
    /// and are synced by then.
    pub fn retire<O: Syncable>(self: &Arc<Syncs>, objects: impl FnOnce() -> Vec<(Ino, Weak<O>, PathBuf)>) {
        if self.retiring.swap(true, Ordering::AcqRel) {
            return;
        }
        let (syncs, objects) = (self.clone(), objects());
        let work = move || {
            for (ino, object, path) in objects {
                if let Some(object) = object.upgrade() {
                    syncs.object(ino, &*object, &path);
                }
            }
            syncs.retiring.store(false, Ordering::Release);
        };
        if let Err(error) = std::thread::Builder::new().name("retire".into()).spawn(work) {
            tracing::warn!(%error, "no thread to sync objects, which stay open");
            self.retiring.store(false, Ordering::Release);
        }
    }
}

const POISON: &str = "no thread panics while it syncs an object";

#[cfg(test)]
mod tests {
    use super::*;

    struct Slow {
        file: File,
        pending: Pending,
        begun: std::sync::mpsc::Sender<()>,
        go_on: Mutex<std::sync::mpsc::Receiver<()>>,
    }

    impl Syncable for Slow {
        fn file(&self) -> &File {
            let _ = self.begun.send(());
            let _ = self.go_on.lock().unwrap().recv();
            &self.file
        }

        fn pending(&self) -> &Pending {
            &self.pending
        }
    }

    #[test]
    fn what_waits_to_be_synced_in_the_background_is_not_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let verifier = Verifier::open(folder.path(), &[]).unwrap();
        let syncs = Arc::new(Syncs::new(folder.path(), false, Arc::new(verifier)).unwrap());
        let (begun, begins) = std::sync::mpsc::channel();
        let (mut objects, mut gates) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (gate, go_on) = std::sync::mpsc::channel();
            let file = tempfile::tempfile().unwrap();
            let (pending, begun, go_on) = (Pending::default(), begun.clone(), Mutex::new(go_on));
            pending.note_unsynced();
            objects.push(Arc::new(Slow { file, pending, begun, go_on }));
            gates.push(gate);
        }
        let waiting =
            objects.iter().map(|object| (Ino(1), Arc::downgrade(object), folder.path().join("1"))).collect();
        syncs.retire(|| waiting);
        begins.recv().unwrap();
        let in_use: Vec<bool> = objects.iter().map(|object| Arc::strong_count(object) > 1).collect();
        assert_eq!(in_use, [true, false, false], "nobody could close them");
        drop(gates);
    }

    #[test]
    fn what_is_written_while_a_sync_is_under_way_is_unsynced_after_it() {
        let pending = Pending::default();
        let writing = pending.writing();
        assert!(pending.take_unsynced(), "a sync begins before the bytes are there");
        drop(writing);
        assert!(pending.is_unsynced(), "nobody would sync it before it is closed");
    }
}
