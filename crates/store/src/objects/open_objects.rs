//! Objects that are kept open: a namespace's own, and how many all namespaces of the process may have.
//!
//! **Invariant:** an object that somebody uses, or that has unsynced writes, is not closed, and what is kept beyond the
//! process's share is closed again, the oldest of the namespace that has most.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use model::Ino;

use super::object::Object;
use super::syncing::Syncable;
use crate::descriptors::Shares;

/// What part of all open objects is closed at once, so that not each open looks for one to close.
const PART: usize = 16;

/// One namespace's.
#[derive(Debug, Default)]
pub struct OpenObjects {
    objects: HashMap<Ino, Arc<Object>>,
    /// Numbers in the order in which they were opened; also of some that are closed.
    order: VecDeque<Ino>,
}

/// A namespace's, for whoever closes objects of all.
pub type Shared = Arc<Mutex<OpenObjects>>;

/// All namespaces of the process.
#[derive(Default)]
struct Process {
    namespaces: Mutex<Vec<Weak<Mutex<OpenObjects>>>>,
    open: AtomicUsize,
    /// How many may be open; less than its share once that turned out to be too many.
    share: OnceLock<AtomicUsize>,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

fn process() -> &'static Process {
    PROCESS.get_or_init(Process::default)
}

impl OpenObjects {
    /// Of a namespace that is being opened.
    pub fn new() -> Shared {
        let shared = Shared::default();
        let mut namespaces = lock(&process().namespaces);
        namespaces.retain(|namespace| namespace.strong_count() > 0);
        namespaces.push(Arc::downgrade(&shared));
        shared
    }

    /// An object, if it is open.
    pub fn get(&self, ino: Ino) -> Option<&Arc<Object>> {
        self.objects.get(&ino)
    }

    /// Every object that is open.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.objects.values()
    }

    /// Up to `count` of those with unsynced writes, the oldest first.
    pub fn unsynced(&self, count: usize) -> Vec<(Ino, Arc<Object>)> {
        let open = self.order.iter().filter_map(|ino| Some((*ino, self.objects.get(ino)?.clone())));
        open.filter(|(_, object)| object.pending().is_unsynced()).take(count).collect()
    }

    /// Keeps one; [`trim`] is to be called once nobody holds the namespace's lock.
    pub fn keep(&mut self, ino: Ino, object: Arc<Object>) {
        if self.objects.insert(ino, object).is_none() {
            process().open.fetch_add(1, Ordering::Relaxed);
        }
        self.order.push_back(ino);
        if self.order.len() > 2 * self.objects.len() + PART {
            self.order.retain(|ino| self.objects.contains_key(ino));
        }
    }

    /// Closes one, once who uses it is done.
    pub fn remove(&mut self, ino: Ino) {
        if self.objects.remove(&ino).is_some() {
            process().open.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Closes up to `count` that nobody uses, the oldest first. How many.
    fn close(&mut self, count: usize) -> usize {
        let mut closed = 0;
        for _ in 0..self.order.len() {
            if closed == count {
                break;
            }
            let Some(ino) = self.order.pop_front() else { break };
            match self.objects.get(&ino) {
                Some(object) if Arc::strong_count(object) > 1 || object.pending().is_unsynced() => {
                    self.order.push_back(ino)
                }
                Some(_) => {
                    self.remove(ino);
                    closed += 1;
                }
                None => {}
            }
        }
        closed
    }
}

impl Drop for OpenObjects {
    fn drop(&mut self) {
        process().open.fetch_sub(self.objects.len(), Ordering::Relaxed);
    }
}

/// Closes objects while more are open than the process's share.
pub fn trim() {
    let process = process();
    let share = process.share().load(Ordering::Relaxed);
    if process.open.load(Ordering::Relaxed) > share {
        process.close(share.div_ceil(PART));
    }
}

/// Whether more objects are open than [`trim`] could close: those with unsynced writes are to be synced first.
pub fn is_crowded() -> bool {
    let process = process();
    let share = process.share().load(Ordering::Relaxed);
    process.open.load(Ordering::Relaxed) > share + share.div_ceil(PART)
}

/// Closes some objects, because there is no descriptor left, and keeps fewer from now on. Whether any could be closed.
pub fn make_room() -> bool {
    let process = process();
    let open = process.open.load(Ordering::Relaxed);
    let closed = process.close(open.div_ceil(PART));
    process.share().fetch_min((open - closed.min(open)).max(1), Ordering::Relaxed);
    tracing::warn!(
        open,
        closed,
        "no descriptor is left (RLIMIT_NOFILE): closed objects, and keep fewer open from now on"
    );
    closed > 0
}

impl Process {
    fn share(&self) -> &AtomicUsize {
        self.share.get_or_init(|| AtomicUsize::new(Shares::now().objects))
    }

    /// Closes up to `count` objects of the namespaces that have most.
    fn close(&self, count: usize) -> usize {
        let mut namespaces: Vec<Shared> = lock(&self.namespaces).iter().filter_map(Weak::upgrade).collect();
        namespaces.sort_by_cached_key(|namespace| std::cmp::Reverse(lock(namespace).objects.len()));
        namespaces.iter().fold(0, |closed, namespace| closed + lock(namespace).close(count - closed))
    }
}

/// A thread that panicked with it has left nothing to keep right.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
