//! The log's upkeep beside the shard's work: making it durable, reserving inode numbers, and replacing it by a
//! shorter one when it has grown.
//!
//! A log is replaced from what it has on the disk, read again by a thread of its own: the shard's lock is taken only to
//! see how far the log goes, and at the end for the little that came meanwhile. Memory for a second tree is needed as
//! long.
//!
//! **Invariant:** syncs are done one after the other: of two at once the kernel would tell only one of an error.

mod heap;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use model::Ino;
use rustix::io::Errno;

use super::Shard;
use super::log::{Sync, Synced};
use super::record::Record;
use super::state::Replayed;
use crate::errno::errno_of;

/// A log is replaced when it is longer than this, bytes, and several times what it began with.
const REPLACE_BYTES_MIN: u64 = 64 << 20;

/// After it could not be replaced, it has to grow by so much before that is tried again, bytes.
const RETRY_BYTES: u64 = 64 << 20;

/// What may still be to copy when syncs are held up for the end, bytes; and how often it is tried to come to that.
const REST_BYTES_MAX: u64 = 1 << 20;
const ROUNDS_MAX: usize = 8;

/// What upkeep remembers.
#[derive(Debug)]
pub(super) struct Upkeep {
    /// Held while the log is synced.
    turn: Mutex<()>,
    replacing: AtomicBool,
    /// The length from which on the log is replaced.
    bytes_min: AtomicU64,
    /// Why nothing can be noted in the log now.
    trouble: Mutex<Option<String>>,
}

impl Default for Upkeep {
    fn default() -> Upkeep {
        Upkeep {
            turn: Mutex::default(),
            replacing: AtomicBool::new(false),
            bytes_min: AtomicU64::new(REPLACE_BYTES_MIN),
            trouble: Mutex::default(),
        }
    }
}

impl Upkeep {
    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().expect("no thread panics while it syncs a log")
    }

    /// Notes why nothing can be noted in the log; whether that is news.
    fn note_trouble(&self, why: Option<String>) -> bool {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = *trouble != why;
        *trouble = why;
        is_news
    }
}

/// What survives a power loss of this node.
struct SyncedHere {
    /// All entries before this one.
    next: u64,
    /// The note that inode numbers up to this one are reserved.
    numbered: Ino,
    /// What was just done; nothing where there was nothing to do.
    sync: Option<Sync>,
}

impl Shard {
    /// Makes every change so far survive a power loss, on this node and on the one with the log's copy.
    ///
    /// # Errors
    /// The errno of the sync; EIO until another log has taken the place of the one that broke.
    pub(super) fn sync_log(&self) -> io::Result<()> {
        let synced = self.sync_own_log()?;
        self.second.iter().try_for_each(|second| second.wait_until_synced(synced.next))?;
        let mut state = self.lock();
        // No sooner: a copy that lacks something of this must still be able to take the log's place, and must not give
        // numbers out again.
        state.numbers.durable = state.numbers.durable.max(synced.numbered);
        state.log.confirm(synced.next);
        if let Some(sync) = synced.sync
            && state.log.is_of(&sync)
        {
            // For whoever finds damage: before this it is none that a power loss can do. Not needed for the answer.
            let is_all = state.log.len() == sync.length();
            let noted = state.record(None, Record::Synced { length: sync.length() });
            if is_all && noted.is_ok() {
                state.log.nothing_new();
            }
        }
        Ok(())
    }

    fn sync_own_log(&self) -> io::Result<SyncedHere> {
        let _turn = self.upkeep.turn();
        loop {
            let (sync, numbered) = {
                let state = self.lock();
                let numbered = state.numbers.noted;
                let Some(sync) = state.log.to_sync()? else {
                    return Ok(SyncedHere { next: state.log.synced_next(), numbered, sync: None });
                };
                (sync, numbered)
            };
            // Both disks work at once.
            self.second.iter().for_each(|second| second.ask_to_sync(sync.next()));
            // The lock is not held: other requests go on while the disk works.
            let result = sync.run();
            if let Synced::UpTo(_) = self.lock().log.finish(&sync, result)? {
                return Ok(SyncedHere { next: sync.next(), numbered, sync: Some(sync) });
            }
        }
    }

    /// Makes sure that there is a number for a new inode.
    ///
    /// # Errors
    /// The errno of the log.
    pub(super) fn reserve_numbers(&self) -> Result<(), Errno> {
        let mut state = self.lock();
        if state.wants_numbers() {
            state.note_numbers()?;
        }
        drop(state);
        self.sync_log().map_err(|error| errno_of(&error))
    }

    /// Does what is due; called about every second.
    pub(super) fn keep_up(self: &Arc<Shard>) {
        let state = self.lock();
        let wants_numbers = state.wants_numbers() && state.numbers.noted == state.numbers.durable;
        let is_broken = state.log.is_broken();
        let is_due = is_broken || state.log.is_overgrown(self.upkeep.bytes_min.load(Ordering::Relaxed));
        drop(state);
        if wants_numbers {
            // Whoever makes a file when the last number is gone is told why there are no more.
            let _ahead = self.reserve_numbers();
        }
        if is_due && !self.upkeep.replacing.swap(true, Ordering::AcqRel) {
            let shard = self.clone();
            let body = move || {
                if is_broken {
                    shard.replace_broken_log();
                } else {
                    shard.replace_log_or_say_why();
                }
                heap::give_back();
                shard.upkeep.replacing.store(false, Ordering::Release);
            };
            if let Err(error) = std::thread::Builder::new().name("replace-log".into()).spawn(body) {
                tracing::warn!(%error, "no thread to replace a metadata log");
                self.upkeep.replacing.store(false, Ordering::Release);
            }
        }
    }

    fn replace_log_or_say_why(&self) {
        let before = self.lock().log.len();
        let replaced = self.replace_log();
        let state = self.lock();
        let (path, after) = (state.log.path(), state.log.len());
        drop(state);
        match replaced {
            Ok(()) => {
                self.upkeep.bytes_min.store(REPLACE_BYTES_MIN, Ordering::Relaxed);
                tracing::info!(path = %path.display(), before, after, "replaced the metadata log by a shorter one");
            }
            Err(error) => {
                self.upkeep.bytes_min.store(after + RETRY_BYTES, Ordering::Relaxed);
                tracing::error!(path = %path.display(), %error, "cannot replace the metadata log by a shorter one");
            }
        }
    }

    /// Why nothing can be noted in the log, if so: names cannot change then, and no file can be opened.
    pub fn log_trouble(&self) -> Option<String> {
        self.upkeep.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a new log in the place of one that cannot be written or synced any more, with all that was answered.
    fn replace_broken_log(&self) {
        let replaced = self.replace_log();
        let path = self.lock().log.path();
        match replaced {
            Ok(()) => {
                self.upkeep.note_trouble(None);
                tracing::info!(path = %path.display(), "a new metadata log has taken the place of a broken one");
            }
            Err(error) => {
                let path = path.display();
                let why =
                    format!("the metadata log {path} cannot be written, nor replaced by a new one: {error}");
                if self.upkeep.note_trouble(Some(why)) {
                    tracing::error!(%path, %error, "cannot replace a broken metadata log; tried again every second");
                }
            }
        }
    }

    /// Replaces the log by one with only what the namespace is now. Of a broken one what can be read is what was
    /// answered: its failed end was never counted, and its entries carry their own sums.
    ///
    /// # Errors
    /// The errno of what failed. Unless the log broke, or was broken, it goes on as it was.
    pub(super) fn replace_log(&self) -> io::Result<()> {
        let (mut draft, mut reader, mut end) = {
            let state = self.lock();
            let (draft, reader) = state.log.begin_replacing()?;
            (draft, reader, state.log.len())
        };
        let mut replayed = Replayed::default();
        while let Some(entry) = reader.next_before(end)? {
            replayed.apply(entry);
        }
        draft.snapshot(replayed.snapshot())?;
        drop(replayed);
        for _ in 0..ROUNDS_MAX {
            let begin = std::mem::replace(&mut end, self.lock().log.len());
            draft.copy(&mut reader, end)?;
            if end - begin < REST_BYTES_MAX {
                break;
            }
        }
        draft.sync()?;
        let turn = self.upkeep.turn();
        // What syncs have confirmed is in the draft from here on, and durable there: none is done before it is in
        // place.
        let (copied, mut state) = loop {
            let copied = self.lock().log.len();
            draft.copy(&mut reader, copied)?;
            draft.sync()?;
            let state = self.lock();
            // Whoever had synced before may have noted that since: those are few, and no more come.
            if !state.log.is_confirmed_beyond(copied) {
                break (copied, state);
            }
        };
        draft.copy(&mut reader, state.log.len())?;
        state.log.replace_by(draft, copied)?;
        drop((state, turn));
        self.sync_replaced();
        Ok(())
    }

    /// The new log is in place, with all that was confirmed. Why it cannot be synced is for whoever asks for that next.
    fn sync_replaced(&self) {
        if let Err(error) = self.sync_log() {
            let path = self.lock().log.path();
            tracing::warn!(path = %path.display(), %error, "cannot sync the new metadata log yet");
        }
    }
}
