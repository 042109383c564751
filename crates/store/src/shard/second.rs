//! The second copy of the log, which another node of the instance keeps: shipped as the log grows, without holding up
//! changes; a sync waits for it, within bounds.
//!
//! ```text
//! behind ---> whole: every sync waits until the copy has, and has synced, what it confirms
//!   ^  |        |
//!   |  |        +-- the connection breaks, the log is replaced: another copy is begun
//!   +--+-- a sync waited in vain, and control knows if it is to ([`Doubt`]): alone. It and those that follow are
//!          confirmed by this node's log only, which is noted durably before ([`crate::alone`]), until a copy
//!          has all of that
//! ```
//!
//! **Invariant:** what is confirmed while no note says that this node is alone is in the copy that another node has,
//! durably.

mod shipping;
mod whole;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Shard;
use super::log::{Extent, Growth, Log, LogError, NAME, restore};
use crate::alone;
use crate::doubt::{Doubt, SILENT_MAX, WAIT_MAX};
use crate::link::Place;
use crate::log_folder::Folder;
pub(super) use shipping::start;

/// How long before that control is to hear of it.
const DOUBT_BEFORE: Duration = Duration::from_millis(2500);

/// How soon a sync that waits for control looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One log's second copy.
pub struct Second {
    place: Place,
    home: Arc<dyn Folder>,
    /// The log was a copy that may have lacked what was confirmed.
    accepted: bool,
    /// The log had the entries before this one when it was opened.
    opened: u64,
    growth: Arc<Growth>,
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// How far it is.
#[derive(Debug)]
struct Progress {
    /// Whether the copy may lack what is confirmed.
    doubt: Doubt,
    /// Everything before this entry survives a power loss of the other node.
    synced: u64,
    /// Somebody waits for, or was answered without, the sync of everything before this entry.
    wanted: u64,
    /// What was shipped of which generation of the log, bytes.
    shipped: (u64, u64),
    /// The copy that is written now has been synced as a whole.
    whole: bool,
    /// The copy lacks something that it had.
    cut: bool,
    /// Changes are confirmed without the other node.
    alone: bool,
    /// The note that says so may be there.
    noted: bool,
    /// The copy that was there before has nothing that this log lacks.
    compared: bool,
    /// When the other node said anything last.
    heard: Option<Instant>,
    trouble: Option<String>,
    closed: bool,
}

/// How far the copy is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    /// The node that keeps it.
    pub node: model::NodeName,
    /// All that a sync confirmed is on both nodes.
    pub whole: bool,
    /// All that a sync confirmed is in the copy, wherever that is.
    pub confirmed: bool,
    /// Changes are confirmed without it.
    pub alone: bool,
    /// The log was once a copy that may have lacked what was confirmed.
    pub accepted: bool,
    /// Bytes of the log that it does not have.
    pub bytes: u64,
    /// Why it is not kept.
    pub error: Option<String>,
    /// What control is still to hear of.
    pub doubt: Option<u64>,
}

impl Progress {
    /// At a start.
    fn new(alone: bool, doubt: Doubt) -> Progress {
        Progress {
            doubt,
            synced: 0,
            wanted: 0,
            shipped: (0, 0),
            whole: false,
            cut: false,
            alone,
            noted: alone,
            compared: false,
            heard: None,
            trouble: None,
            closed: false,
        }
    }
}

impl Second {
    /// Of the log in the folder `home`, at `place`.
    ///
    /// # Errors
    /// [`LogError::Io`]: it is not known whether this node was alone.
    pub fn new(place: Place, home: Arc<dyn Folder>, log: &Log) -> Result<Arc<Second>, LogError> {
        let notes = alone::is_alone(&*home).and_then(|alone| Ok((alone, restore::is_accepted(&*home)?)));
        let (alone, accepted) = notes.map_err(|cause| LogError::Io {
            operation: "look for the notes beside",
            path: home.path_of(NAME),
            cause,
        })?;
        let (opened, growth) = (log.extent().next, log.growth().clone());
        let progress = Mutex::new(Progress::new(alone, Doubt::new(place.is_witnessed())));
        Ok(Arc::new(Second { place, home, accepted, opened, growth, progress, changed: Condvar::new() }))
    }

    /// Everything before the entry `next` is about to be synced here: it should be there as well.
    pub fn ask_to_sync(&self, next: u64) {
        let mut progress = self.lock();
        if progress.synced < next {
            progress.wanted = progress.wanted.max(next);
            drop(progress);
            self.growth.wake();
        }
    }

    /// Waits until everything before the entry `next` survives a power loss of the other node, or of this one is known
    /// to be alone.
    ///
    /// # Errors
    /// Neither is so: it cannot be noted that this node is alone, or the shard is closed.
    pub fn wait_until_synced(&self, next: u64) -> io::Result<()> {
        self.ask_to_sync(next);
        let begun = Instant::now();
        let mut progress = self.lock();
        while progress.synced < next && !progress.alone {
            if progress.closed || self.place.is_replaced() {
                return Err(Errno::IO.into());
            }
            let silent = progress.heard.map_or(begun, |heard| heard.max(begun)).elapsed();
            let left = SILENT_MAX.saturating_sub(silent).min(WAIT_MAX.saturating_sub(begun.elapsed()));
            if left <= DOUBT_BEFORE {
                progress.doubt.begin();
            }
            if left.is_zero() && progress.doubt.permits() {
                return self.go_on_alone(progress);
            }
            let pause = if left > DOUBT_BEFORE { left - DOUBT_BEFORE } else { left.max(LOOK_AGAIN) };
            progress = self.changed.wait_timeout(progress, pause).expect(POISON).0;
        }
        Ok(())
    }

    /// From here on changes are confirmed without the other node. The lock is held: nobody is answered before the note
    /// is there.
    ///
    /// # Errors
    /// The errno of making the note: without it the copy, which is older, could take the log's place.
    fn go_on_alone(&self, mut progress: MutexGuard<'_, Progress>) -> io::Result<()> {
        progress.noted = true;
        alone::note_alone(&*self.home, true).inspect_err(|error| {
            let path = self.path();
            tracing::error!(path = %path.display(), %error, "cannot note that the metadata log has one copy");
        })?;
        progress.alone = true;
        let why = progress.trouble.clone().unwrap_or_else(|| "it does not answer in time".into());
        tracing::warn!(
            path = %self.path().display(),
            node = ?self.place.node(),
            why,
            "the node with the second copy of the metadata log cannot be waited for: changes are confirmed with one copy until it \
             has all of the log again"
        );
        self.changed.notify_all();
        Ok(())
    }

    /// The other node has synced everything before the entry `next`, in a copy that is whole.
    fn synced(&self, next: u64) {
        let mut progress = self.lock();
        progress.synced = progress.synced.max(next);
        progress.whole = true;
        progress.cut = false;
        progress.trouble = None;
        progress.heard = Some(Instant::now());
        if progress.noted && progress.synced >= progress.wanted {
            // Who goes on alone again makes the note again.
            progress.alone = false;
            match alone::note_alone(&*self.home, false) {
                Ok(()) => {
                    progress.noted = false;
                    let (path, node) = (self.path(), self.place.node());
                    tracing::info!(path = %path.display(), ?node, "the metadata log has two copies again");
                }
                Err(error) => {
                    let path = self.path();
                    tracing::error!(path = %path.display(), %error, "cannot note that there are two copies");
                }
            }
        }
        if !progress.noted {
            progress.doubt.end();
        }
        self.changed.notify_all();
    }

    /// Control knows of these doubts.
    pub fn hear(&self, doubts: &[u64]) {
        if self.lock().doubt.hear(doubts) {
            self.changed.notify_all();
        }
    }

    fn wanted(&self) -> u64 {
        self.lock().wanted
    }

    /// So much of this generation of the log is there.
    fn shipped(&self, generation: u64, bytes: u64) {
        let mut progress = self.lock();
        if progress.shipped.0 != generation || bytes == 0 {
            progress.whole = false;
        }
        progress.shipped = (generation, bytes);
        progress.heard = Some(Instant::now());
    }

    /// The copy is not written any more.
    fn lost(&self, why: String) {
        let mut progress = self.lock();
        progress.whole = false;
        progress.shipped = (0, 0);
        progress.trouble = Some(why);
    }

    /// The copy lacks something that it had: it does not have all that was confirmed before it is made anew.
    fn is_cut(&self) {
        self.lock().cut = true;
    }

    /// How far it is behind a log that goes so far.
    pub fn behind(&self, log: &Extent) -> Behind {
        let progress = self.lock();
        let (generation, shipped) = progress.shipped;
        let has = if generation == log.generation { shipped } else { 0 };
        let confirmed = !progress.alone && !progress.cut && !progress.doubt.exists();
        Behind {
            node: self.place.node(),
            whole: progress.whole && confirmed,
            confirmed,
            alone: progress.alone,
            accepted: self.accepted,
            bytes: log.length.saturating_sub(has),
            error: progress.trouble.clone(),
            doubt: progress.doubt.untold(),
        }
    }

    /// Nothing is shipped any more, and nobody waits.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
        self.growth.wake();
    }

    /// Waits so long, or until this is closed.
    fn rest(&self, pause: Duration) {
        let open = |progress: &mut Progress| !progress.closed;
        drop(self.changed.wait_timeout_while(self.lock(), pause, open).expect(POISON));
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn path(&self) -> PathBuf {
        self.home.path_of(NAME)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the state of a copy";

#[cfg(test)]
mod tests;
