//! The work that waits for the workers: whole entries in a bounded queue, and the chunks of large files that idle
//! workers help with.
//!
//! ```text
//! planner --push--> items --next--> worker --share(chunks)--> its own loop over the chunks
//!                                                   \--next--> idle workers' loops over the same chunks
//! ```
//!
//! **Invariant:** a worker is sent home only when no item is left or in work, so that whoever shares a large file late
//! still finds help.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Entries that wait; about 300 bytes each. Enough that the planner is ahead and the totals are known early.
const ITEMS_MAX: usize = 16 * 1024;

/// A bounded queue with a side entrance for shared work.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    /// Something to do came, or nothing will.
    work: Condvar,
    /// There is room for an item.
    room: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    shared: Vec<Arc<Shared>>,
    /// Items that were taken and are not finished.
    busy: usize,
    closed: bool,
}

enum Next<T> {
    Item(T),
    Help(Arc<Shared>),
    GoHome,
}

/// Numbered chunks that several threads work off.
struct Shared {
    count: usize,
    next: AtomicUsize,
    work: Box<dyn Fn(usize) + Send + Sync>,
    helpers: Mutex<usize>,
    last_helper_left: Condvar,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let state = State { items: VecDeque::new(), shared: Vec::new(), busy: 0, closed: false };
        Queue { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new() }
    }

    /// Adds an item; waits while the queue is full.
    pub(crate) fn push(&self, item: T) {
        let state = self.lock();
        let full = |state: &mut State<T>| state.items.len() >= ITEMS_MAX;
        let mut state = self.room.wait_while(state, full).expect("no thread panics with the lock");
        state.items.push_back(item);
        drop(state);
        self.work.notify_one();
    }

    /// No more items will come.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
    }

    /// Works until the queue is closed and everything in it is done.
    pub(crate) fn work(&self, mut item: impl FnMut(T)) {
        loop {
            match self.next() {
                Next::Item(next) => {
                    let _busy = Busy(self);
                    item(next);
                }
                Next::Help(shared) => {
                    let _helper = Helper(&shared);
                    shared.help();
                }
                Next::GoHome => return,
            }
        }
    }

    /// Runs `work` for `0..count`, each number once, on this thread and on idle workers. Returns when all are done.
    pub(crate) fn share(&self, count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
        let shared = Arc::new(Shared {
            count,
            next: AtomicUsize::new(0),
            work: Box::new(work),
            helpers: Mutex::new(0),
            last_helper_left: Condvar::new(),
        });
        self.lock().shared.push(shared.clone());
        self.work.notify_all();
        shared.help();
        self.lock().shared.retain(|other| !Arc::ptr_eq(other, &shared));
        shared.wait_for_helpers();
    }

    fn next(&self) -> Next<T> {
        let mut state = self.lock();
        loop {
            if let Some(item) = state.items.pop_front() {
                state.busy += 1;
                drop(state);
                self.room.notify_one();
                return Next::Item(item);
            }
            if let Some(shared) = state.shared.iter().find(|shared| !shared.is_exhausted()) {
                // Under the queue's lock, so that `share` counts this helper after it took its entry away.
                shared.enter();
                return Next::Help(shared.clone());
            }
            if state.closed && state.busy == 0 {
                return Next::GoHome;
            }
            state = self.work.wait(state).expect("no thread panics with the lock");
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

impl Shared {
    fn is_exhausted(&self) -> bool {
        self.next.load(Ordering::Relaxed) >= self.count
    }

    fn help(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= self.count {
                return;
            }
            (self.work)(index);
        }
    }

    fn enter(&self) {
        *self.helpers.lock().expect("no thread panics with the lock") += 1;
    }

    fn wait_for_helpers(&self) {
        let helpers = self.helpers.lock().expect("no thread panics with the lock");
        let left = self.last_helper_left.wait_while(helpers, |helpers| *helpers > 0);
        drop(left.expect("no thread panics with the lock"));
    }
}

/// Closes a queue when the one who fills it is done.
pub(crate) struct CloseOnDrop<'a, T>(pub(crate) &'a Queue<T>);

impl<T> Drop for CloseOnDrop<'_, T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An item in work; over on drop, so that a worker that panics does not leave the others waiting for it.
struct Busy<'a, T>(&'a Queue<T>);

impl<T> Drop for Busy<'_, T> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.work.notify_all();
    }
}

/// A helper at its chunks; gone on drop, as above.
struct Helper<'a>(&'a Shared);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        *self.0.helpers.lock().expect("no thread panics with the lock") -= 1;
        self.0.last_helper_left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn every_item_and_every_chunk_is_worked_on_once() {
        let queue = Arc::new(Queue::new());
        let chunks = Arc::new((0..100).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
        let items = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    queue.work(|item: usize| {
                        items.fetch_add(item, Ordering::Relaxed);
                        if item == 7 {
                            let chunks = chunks.clone();
                            let count = chunks.len();
                            queue.share(count, move |index| {
                                chunks[index].fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
            }
            (0..1000).for_each(|item| queue.push(item));
            queue.close();
        });
        assert_eq!(items.into_inner(), 499_500);
        assert!(chunks.iter().all(|times| times.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn an_idle_worker_helps_with_a_file_that_is_shared_after_the_queue_was_closed() {
        let queue = Arc::new(Queue::new());
        let helped = Arc::new(AtomicBool::new(false));
        queue.push(());
        queue.close();
        let work = || {
            queue.work(|()| {
                let (owner, seen) = (std::thread::current().id(), helped.clone());
                // The owner's chunk ends only after somebody else took the other one.
                queue.share(2, move |_| {
                    if std::thread::current().id() != owner {
                        seen.store(true, Ordering::Release);
                    }
                    while !seen.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                });
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        assert!(helped.load(Ordering::Acquire));
    }
}
