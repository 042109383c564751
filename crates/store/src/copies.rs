//! Second copies of metadata logs, as the node keeps them that is next to a namespace's home: the same bytes, never
//! replayed here. The home writes them ([`crate::shard`]'s `second`), and reads them back when its log is lost.
//!
//! ```text
//! FRAGMENT/copies/0/meta.log        the copy of namespace 0's log: whole, and synced once at least
//! FRAGMENT/copies/0/meta.log.new    the one that is to take its place, while it is not whole yet
//! FRAGMENT/copies/0/meta.mark       up to which entry the home had synced its own log
//! ```
//!
//! A copy belongs to the connection that it comes by. One that broke is not gone on with, and is removed unless it was
//! whole: the home begins another, and the one that is there stays until that is whole. Copies are kept and read also
//! where the fragment beside them cannot be served.
//!
//! **Invariant:** of several connections for one namespace only the last that began a copy writes.

pub mod connection;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use model::FragmentIndex;
use rustix::io::Errno;
use wire::data::Stream;
use wire::data::keys::Keys;
use wire::data::member::Member;

use crate::errno::errno_of;
use crate::log_folder::{DiskFolder, Folder, LogFile};
use crate::replica;
use crate::shard::log::mark::Mark;
use crate::shard::log::{DRAFT, NAME};
use crate::terms::Terms;

/// A copy that is being filled is synced whenever it has so many more bytes, so that its end does not take long.
const SYNC_BYTES: u64 = 32 << 20;

/// All copies that one fragment's node keeps for the instance.
pub struct Copies {
    keys: Keys,
    index: FragmentIndex,
    /// `FRAGMENT/copies`.
    folder: PathBuf,
    kept: Mutex<HashMap<u32, Arc<Mutex<Kept>>>>,
    connections: Mutex<HashMap<u64, (Arc<Stream>, Member)>>,
    /// Those that were ended and may have something under way.
    ended: Mutex<HashSet<u64>>,
    terms: Arc<Terms>,
    /// Why copies cannot be kept, as the log says already.
    troubles: Mutex<HashMap<u32, Errno>>,
    next_connection: AtomicU64,
    closed: AtomicBool,
}

/// The copy of one namespace's log.
struct Kept {
    folder: Arc<dyn Folder>,
    mark: Mark,
    confirmed: u64,
    /// The connection that may write.
    writer: u64,
}

/// A copy that a connection writes.
struct Draft {
    file: Arc<dyn LogFile>,
    length: u64,
    synced: u64,
    /// It has taken the former one's place.
    named: bool,
}

impl Copies {
    /// Those of the fragment in `folder`, which is fragment `index` of its instance.
    pub fn new(
        folder: &std::path::Path,
        index: FragmentIndex,
        keys: impl Into<Keys>,
        terms: Arc<Terms>,
    ) -> Copies {
        Copies {
            keys: keys.into(),
            index,
            folder: folder.join("copies"),
            kept: Mutex::default(),
            connections: Mutex::default(),
            ended: Mutex::default(),
            terms,
            troubles: Mutex::default(),
            next_connection: AtomicU64::new(1),
            closed: AtomicBool::new(false),
        }
    }

    /// The keys of which the homes prove one.
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Which fragment's node keeps them.
    pub fn index(&self) -> FragmentIndex {
        self.index
    }

    /// Notes a connection. Gives its number; `None` once this is closed.
    pub fn connected(&self, stream: Arc<Stream>, member: Member) -> Option<u64> {
        let mut connections = self.connections.lock().expect(POISON);
        if self.closed.load(Ordering::Acquire) {
            return None;
        }
        let number = self.next_connection.fetch_add(1, Ordering::Relaxed);
        connections.insert(number, (stream, member));
        Some(number)
    }

    /// How often the fragment before this one has found its mirror here.
    fn meeting(&self, namespace: u32) -> io::Result<u64> {
        let fragment = self.folder.parent().ok_or(io::ErrorKind::NotFound)?;
        replica::meeting(fragment, namespace)
    }

    /// Who may speak for other fragments, and whether this one may.
    pub fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    /// Ends the connections of whoever this one has taken the place of.
    pub fn end_former(&self, next: Member) {
        let connections = self.connections.lock().expect(POISON);
        let former = connections.values().filter(|(_, former)| next.follows(*former));
        former.for_each(|(stream, _)| stream.shutdown());
    }

    /// Ends all connections: whoever may still come comes again.
    pub fn end_all(&self) {
        let connections = self.connections.lock().expect(POISON);
        connections.values().for_each(|(stream, _)| stream.shutdown());
        self.ended.lock().expect(POISON).extend(connections.keys());
    }

    /// Whether something is being done still for one that was ended so.
    pub fn are_ended_served(&self) -> bool {
        !self.ended.lock().expect(POISON).is_empty()
    }

    fn disconnected(&self, number: u64) {
        self.connections.lock().expect(POISON).remove(&number);
        self.ended.lock().expect(POISON).remove(&number);
    }

    /// Ends every connection; nothing is written any more.
    pub fn close(&self) {
        let connections = {
            let mut connections = self.connections.lock().expect(POISON);
            self.closed.store(true, Ordering::Release);
            std::mem::take(&mut *connections)
        };
        connections.values().for_each(|(stream, _)| stream.shutdown());
        // What is under way ends before.
        self.kept.lock().expect(POISON).values().for_each(|kept| drop(lock(kept)));
    }

    /// A request about this namespace's copy failed. The log says so once, until a copy is whole.
    fn failed(&self, namespace: u32, error: &io::Error) {
        let errno = errno_of(error);
        if self.troubles.lock().expect(POISON).insert(namespace, errno) != Some(errno) {
            let folder = self.folder.join(namespace.to_string());
            tracing::warn!(path = %folder.display(), %error, "cannot keep or read the copy of another node's metadata log");
        }
    }

    /// A copy is whole.
    fn succeeded(&self, namespace: u32) {
        self.troubles.lock().expect(POISON).remove(&namespace);
    }

    /// The copy of this namespace's log, or the place for one, which is made where `make` says so.
    fn kept(&self, namespace: u32, make: bool) -> io::Result<Arc<Mutex<Kept>>> {
        let mut all = self.kept.lock().expect(POISON);
        if self.closed.load(Ordering::Acquire) {
            return Err(Errno::STALE.into());
        }
        if let Some(kept) = all.get(&namespace) {
            return Ok(kept.clone());
        }
        let folder = self.folder.join(namespace.to_string());
        if make {
            disk::make_folder(&self.folder)?;
            disk::make_folder(&folder)?;
        }
        let folder: Arc<dyn Folder> = Arc::new(DiskFolder::open(&folder)?);
        let (mark, confirmed) = Mark::open(&*folder)?;
        // Of a former life: nobody goes on with it.
        disk::if_there(folder.remove(DRAFT))?;
        let kept = Arc::new(Mutex::new(Kept { folder, mark, confirmed, writer: 0 }));
        all.insert(namespace, kept.clone());
        Ok(kept)
    }
}

impl Kept {
    fn begin(&mut self, writer: u64) -> io::Result<Draft> {
        self.writer = writer;
        let file = self.folder.create(DRAFT)?;
        Ok(Draft { file, length: 0, synced: 0, named: false })
    }

    fn append(&mut self, draft: &mut Draft, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset != draft.length {
            return Err(Errno::INVAL.into());
        }
        draft.file.write_at(offset, bytes)?;
        draft.length += bytes.len() as u64;
        if draft.length - draft.synced > SYNC_BYTES {
            draft.file.sync()?;
            draft.synced = draft.length;
        }
        Ok(())
    }

    fn sync(&mut self, draft: &mut Draft, length: u64) -> io::Result<()> {
        if length != draft.length {
            return Err(Errno::INVAL.into());
        }
        draft.file.sync()?;
        draft.synced = draft.length;
        if !draft.named {
            self.folder.replace(DRAFT, NAME)?;
            self.folder.sync()?;
            draft.named = true;
        }
        Ok(())
    }

    /// A connection has ended: nobody goes on with what it wrote, and its room is for others.
    fn abandon(&mut self, writer: u64, draft: &Draft) {
        if self.writer == writer && !draft.named {
            let removed = disk::if_there(self.folder.remove(DRAFT));
            if let Err(error) = removed {
                let path = self.folder.path_of(DRAFT);
                tracing::warn!(path = %path.display(), %error, "cannot remove what was to be the copy of a metadata log");
            }
        }
    }

    /// Notes how far the home has synced its log.
    fn confirm(&mut self, confirmed: u64) {
        if confirmed > self.confirmed {
            self.confirmed = confirmed;
            self.mark.note(confirmed);
        }
    }

    /// The copy, if there is one, with its length.
    fn find(&self) -> io::Result<Option<(Arc<dyn LogFile>, u64)>> {
        let Some(file) = disk::if_there(self.folder.open(NAME))? else { return Ok(None) };
        let length = file.len()?;
        Ok(Some((file, length)))
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().expect(POISON)
}

const POISON: &str = "no thread panics while it holds a copy of a log";
