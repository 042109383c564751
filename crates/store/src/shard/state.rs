//! Everything that changes about a namespace, and the log that it can be made from again.
//!
//! **Invariant:** the tree changes only by a record that is in the log; no inode gets a number that another has had,
//! not even one that a power loss took back.

mod replayed;

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use model::{Ino, SessionId};
use rustix::io::Errno;
use wire::data::ROOT;
use wire::node::NamespaceSpec;

use super::caller::Caller;
use super::followed::Followed;
use super::locks::Locks;
use super::log::{self, Log, LogError, restore};
use super::losses::Losses;
use super::now;
use super::record::{AttrChange, Entry, InodeRecord, Kind, Origin, Record};
use super::room::Room;
use super::sessions::{Outcome, Sessions};
use super::tree::Tree;
use super::unconfirmed::Unconfirmed;
use super::unsettled::Unsettled;
use crate::errno::errno_of;
use crate::log_folder::Folder;
pub use replayed::Replayed;

/// Inode numbers that are reserved at once: a power loss costs as many of 2^64, and one sync of the log is needed for
/// so many new files.
const NUMBERS: u64 = 1 << 20;

/// Everything that changes about a namespace.
pub struct State {
    /// The names and inodes.
    pub tree: Tree,
    /// Where every change of the tree is first.
    pub log: Log,
    /// Who has what open.
    pub sessions: Sessions,
    /// Who has what locked.
    pub locks: Locks,
    /// Where the next append goes, by inode, while files are appended to from several nodes.
    pub ends: HashMap<Ino, u64>,
    /// The inode numbers that may be given out.
    pub numbers: Numbers,
    /// What other fragments may lose of what they were told.
    pub followed: Followed,
    /// Files whose objects a power loss may bring back.
    pub unconfirmed: Unconfirmed,
    /// Files whose sizes only the fragments know.
    pub unsettled: Unsettled,
    /// What was lost, and may be.
    pub losses: Losses,
    /// How much metadata there is and may be.
    pub room: Room,
    /// The commit verifier of the fragment, as the log has it.
    verifier: Option<u64>,
}

/// Which inode numbers are reserved: those below `durable` may be given out, those below `noted` once the log is
/// synced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers {
    /// The log that says so survives a power loss.
    pub durable: Ino,
    /// The log says so.
    pub noted: Ino,
}

/// Whether a namespace's metadata must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It was made before: where it is missing, it is lost, and nothing takes its place.
    Existing,
    /// It is being made. Where an attempt that was cut short has made it, that is used.
    New,
}

impl State {
    /// Opens the namespace whose log is in the folder `home`.
    ///
    /// # Errors
    /// [`LogError`]: nothing is served then, and what is there stays as it is.
    pub fn open(home: Arc<dyn Folder>, spec: &NamespaceSpec, expect: Expect) -> Result<State, LogError> {
        let unused = restore::first_unused(&*home);
        let unused = unused
            .map_err(|e| log::io_error("read the note of copies beside", home.path_of(log::NAME), e))?;
        let is_absent = |error: &LogError| matches!(error, LogError::Io { operation: log::OPEN, cause, .. } if cause.kind() == io::ErrorKind::NotFound);
        let mut state = match expect {
            Expect::Existing => recover(home)?,
            Expect::New => match recover(home.clone()) {
                Err(error) if is_absent(&error) => create(home, spec)?,
                recovered => recovered?,
            },
        };
        // Those between were perhaps given to files that a power loss took back.
        state.tree.number_from(state.numbers.noted.max(unused.into()));
        Ok(state)
    }

    /// The fragment has this commit verifier now. If the log knows another, a power loss was between, and sizes are
    /// doubted.
    pub fn serve_under(&mut self, verifier: u64) {
        let record = Record::Verified { verifier };
        if self.verifier != Some(verifier) && self.record(None, record.clone()).is_err() {
            // The log cannot take it, and the next start finds that out again.
            self.tree.apply(&record);
        }
        self.verifier = Some(verifier);
    }

    /// The size of this file is what the fragments have. Where the log cannot take that, on a full disk, it is so until
    /// the next start, at which clients say again what they have open: they are not to be refused for it.
    pub fn doubt(&mut self, ino: Ino) {
        let record = Record::Opened { ino };
        if self.record(None, record.clone()).is_err() {
            self.tree.apply(&record);
        }
        self.unsettled.add(ino);
    }

    /// The sizes of all files are doubted: another fragment has lost something.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn doubt_all(&mut self) -> Result<(), Errno> {
        self.unsettled.add_all();
        let verifier = self.verifier.unwrap_or_default();
        self.record(None, Record::Verified { verifier })
    }

    /// Notes that more numbers are reserved; they may be given out once the log is synced.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn note_numbers(&mut self) -> Result<(), Errno> {
        let until = self.tree.next_ino().max(self.numbers.noted) + NUMBERS;
        self.record(None, Record::Numbered { until })?;
        self.numbers.noted = until;
        Ok(())
    }

    /// Whether there is a number for a new inode.
    pub fn has_number(&self) -> bool {
        self.tree.next_ino() < self.numbers.durable
    }

    /// Whether more numbers should be reserved soon.
    pub fn wants_numbers(&self) -> bool {
        self.tree.next_ino() + NUMBERS / 2 > self.numbers.noted
    }

    /// Before a session holds anything: after a restart the shard waits for it.
    pub fn hold(&mut self, session: SessionId) -> Result<(), Errno> {
        if !self.sessions.is_noted(session) {
            self.record(None, Record::Began { session })?;
            self.losses.begins(session).into_iter().try_for_each(|heard| self.record(None, heard))?;
            self.sessions.note(session);
        }
        Ok(())
    }

    /// Logs, applies and remembers one change.
    pub fn commit(&mut self, caller: Caller<'_>, record: Record, outcome: Outcome) -> Result<(), Errno> {
        self.room.admit(&self.tree, &record)?;
        let origin = Origin { session: caller.session, id: caller.id };
        match &record {
            Record::Make { ino, .. } | Record::SetAttr { ino, change: AttrChange { size: Some(_), .. } } => {
                self.writes_to(caller.session, *ino)?;
            }
            _ => self.writes(caller.session)?,
        }
        self.record(Some(origin), record)?;
        self.sessions.answer(caller.session, caller.id, outcome);
        Ok(())
    }

    pub fn record(&mut self, origin: Option<Origin>, record: Record) -> Result<(), Errno> {
        let entry = Entry { origin, record };
        self.log.append(&entry).map_err(|error| {
            tracing::error!(path = %self.log.path().display(), %error, "cannot append to the metadata log");
            errno_of(&error)
        })?;
        self.tree.apply(&entry.record);
        self.room.follow(&self.tree);
        keep_ends(&mut self.ends, &entry.record);
        self.followed.apply(&entry.record);
        self.unconfirmed.apply(&entry.record);
        self.losses.apply(&entry.record, || self.followed.verifiers());
        if let Record::SetAttr { ino, change: AttrChange { size: Some(_), .. } } = entry.record {
            self.sessions.truncated(ino);
        }
        Ok(())
    }
}

/// What a change does to the places that appends were given.
fn keep_ends(ends: &mut HashMap<Ino, u64>, record: &Record) {
    match record {
        Record::Reserved { ino, end, .. } if *end > 0 => {
            ends.insert(*ino, *end);
        }
        Record::SetAttr { change: AttrChange { size: None, .. }, .. } => {}
        Record::Reserved { ino, .. }
        | Record::SetAttr { ino, .. }
        | Record::Settled { ino, .. }
        | Record::Destroyed { ino } => {
            ends.remove(ino);
        }
        _ => {}
    }
}

/// A namespace that is new.
fn create(home: Arc<dyn Folder>, spec: &NamespaceSpec) -> Result<State, LogError> {
    let time = now();
    let root = InodeRecord {
        kind: Kind::Directory,
        mode: spec.mode & 0o7777,
        nlink: 2,
        uid: spec.owner.uid,
        gid: spec.owner.gid,
        rdev: 0,
        size: 0,
        live: false,
        atime: time,
        mtime: time,
        ctime: time,
        target: Vec::new(),
        parent: ROOT,
        next_cookie: 1,
        xattrs: Vec::new(),
    };
    let replayed = Replayed { tree: Tree::new(root), ..Replayed::default() };
    let log = Log::create(home, replayed.snapshot())?;
    Ok(replayed.with(log))
}

/// The namespace that the log has.
fn recover(home: Arc<dyn Folder>) -> Result<State, LogError> {
    let mut replayed = Replayed::default();
    let log = Log::open(home, |entry| replayed.apply(entry))?;
    if replayed.tree.get(ROOT).is_none() {
        return Err(LogError::Foreign { path: log.path() });
    }
    replayed.sessions.all_lost(Instant::now());
    let inodes = replayed.tree.len();
    tracing::info!(path = %log.path().display(), inodes, bytes = log.len(), "recovered the namespace");
    Ok(replayed.with(log))
}
