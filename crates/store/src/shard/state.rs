//! Everything that changes about a namespace, and the log that it can be made from again.
//!
//! **Invariant:** the tree changes only by a record that is in the log.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use rustix::io::Errno;
use wire::data::ROOT;
use wire::node::NamespaceSpec;

use super::locks::Locks;
use super::log::{Log, LogError};
use super::record::{AttrChange, Entry, InodeRecord, Kind, Origin, Record};
use super::sessions::{Outcome, Sessions};
use super::tree::Tree;
use super::{Caller, errno_of, now};

/// The log is written anew when it is this long and several times what the tree needs.
const COMPACT_BYTES_MIN: u64 = 64 << 20;
/// A generous guess of what one inode with its entry takes in a snapshot, bytes.
const SNAPSHOT_BYTES_PER_INODE: u64 = 256;
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
    pub ends: HashMap<u64, u64>,
}

impl State {
    /// Opens the namespace whose log is at `log_path`, making it if it is new.
    ///
    /// # Errors
    /// [`LogError`]: nothing is served then.
    pub fn open(log_path: &Path, spec: &NamespaceSpec) -> Result<State, LogError> {
        let mut state = if log_path.exists() { recover(log_path)? } else { create(log_path, spec)? };
        if state.log.len() > 4 * snapshot_bytes(&state.tree) {
            state.compact()?;
        }
        Ok(state)
    }

    /// Before a session holds anything: after a restart the shard waits for it.
    pub fn hold(&mut self, session: [u8; 16]) -> Result<(), Errno> {
        if !self.sessions.is_noted(session) {
            self.record(None, Record::Began { session })?;
            self.sessions.note(session);
        }
        Ok(())
    }

    /// Logs, applies and remembers one change.
    pub fn commit(&mut self, caller: Caller, record: Record, outcome: Outcome) -> Result<(), Errno> {
        let origin = Origin { session: caller.session, id: caller.id };
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
        keep_ends(&mut self.ends, &entry.record);
        if let Record::SetAttr { ino, change: AttrChange { size: Some(_), .. } } = entry.record {
            self.sessions.truncated(ino);
        }
        if self.log.len() > COMPACT_BYTES_MIN
            && self.log.len() > 8 * snapshot_bytes(&self.tree)
            && let Err(error) = self.compact()
        {
            tracing::error!(error = &error as &dyn std::error::Error, "cannot write the metadata log anew");
        }
        Ok(())
    }

    /// Writes the log anew with only what the tree is now.
    pub fn compact(&mut self) -> Result<(), LogError> {
        let snapshot = self.tree.snapshot().map(|record| Entry { origin: None, record });
        let answers = self.sessions.answers().map(|(session, id, outcome)| Entry {
            origin: Some(Origin { session, id }),
            record: match outcome {
                Outcome::Done => Record::Answered { ino: None },
                Outcome::Inode(ino) => Record::Answered { ino: Some(ino) },
                Outcome::Offset(offset) => Record::Placed { offset },
            },
        });
        let noted = self.sessions.noted().map(|session| Record::Began { session });
        let reserved = self.ends.iter().map(|(&ino, &end)| Record::Reserved { ino, offset: end, end });
        let rest = noted.chain(reserved).map(|record| Entry { origin: None, record });
        self.log = Log::create(self.log.path(), snapshot.chain(answers).chain(rest))?;
        Ok(())
    }
}

/// What a change does to the places that appends were given.
fn keep_ends(ends: &mut HashMap<u64, u64>, record: &Record) {
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

/// How the request ended that made this record.
fn outcome_of(record: &Record) -> Outcome {
    match record {
        Record::Make { ino, .. } | Record::Link { ino, .. } | Record::SetAttr { ino, .. } => {
            Outcome::Inode(*ino)
        }
        Record::Answered { ino: Some(ino) } => Outcome::Inode(*ino),
        Record::Reserved { offset, .. } | Record::Placed { offset } => Outcome::Offset(*offset),
        _ => Outcome::Done,
    }
}

fn snapshot_bytes(tree: &Tree) -> u64 {
    (tree.len() as u64 + 1) * SNAPSHOT_BYTES_PER_INODE
}

/// A namespace that is new.
fn create(log_path: &Path, spec: &NamespaceSpec) -> Result<State, LogError> {
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
    let tree = Tree::new(root);
    let log = Log::create(log_path, tree.snapshot().map(|record| Entry { origin: None, record }))?;
    Ok(State { tree, log, sessions: Sessions::default(), locks: Locks::default(), ends: HashMap::new() })
}

/// The namespace that the log has.
fn recover(log_path: &Path) -> Result<State, LogError> {
    let (mut tree, mut sessions, mut ends) = (Tree::empty(), Sessions::default(), HashMap::new());
    let log = Log::open(log_path, |entry| {
        tree.apply(&entry.record);
        keep_ends(&mut ends, &entry.record);
        match entry.record {
            Record::Began { session } => sessions.note(session),
            Record::Ended { session } => sessions.forget(session),
            _ => {}
        }
        if let Some(origin) = entry.origin {
            sessions.answer(origin.session, origin.id, outcome_of(&entry.record));
        }
    })?;
    sessions.all_lost(Instant::now());
    tracing::info!(path = %log_path.display(), inodes = tree.len(), bytes = log.len(), "recovered the namespace");
    Ok(State { tree, log, sessions, locks: Locks::default(), ends })
}
