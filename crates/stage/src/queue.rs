//! The work that waits for the workers: whole entries in a bounded queue, and the units of large files that idle
//! workers help with.
//!
//! ```text
//! planner --push--> items --next--> worker --share(units)--> its own loop over the units
//!                                                   \--next--> idle workers' loops over the same units
//! ```
//!
//! Each worker copies on a [`Host`], and takes the units first that are there.
//!
//! **Invariant:** a worker is sent home only when no item is left or in work, so that whoever shares a large file late
//! still finds help.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::FragmentIndex;

use super::sync::{Condvar, Mutex, MutexGuard};

/// Entries that wait; about 300 bytes each. Enough that the planner is ahead and the totals are known early.
const ITEMS_MAX: usize = 16 * 1024;

/// The numbers of the units that nobody has taken, by the fragment that they are on.
struct Left(BTreeMap<Option<FragmentIndex>, VecDeque<usize>>);

/// A bounded queue with a side entrance for shared work.
pub(crate) struct Queue<T, H: ?Sized> {
    state: Mutex<State<T, H>>,
    /// Something to do came, or nothing will.
    work: Condvar,
    /// There is room for an item.
    room: Condvar,
    /// Items that may wait.
    items_max: usize,
}

struct State<T, H: ?Sized> {
    items: VecDeque<T>,
    shared: Vec<Arc<Shared<H>>>,
    /// Items that were taken and are not finished.
    busy: usize,
    closed: bool,
}

enum Next<T, H: ?Sized> {
    Item(T),
    Help(Arc<Shared<H>>),
    GoHome,
}

/// Where a worker copies.
pub(crate) trait Host: Send + Sync {
    /// The fragment that is there.
    fn fragment(&self) -> Option<FragmentIndex>;
}

/// What is done with a unit, by its number, and on which host.
type Work<H> = dyn Fn(usize, &Arc<H>) + Send + Sync;

/// Numbered units that several threads work off.
struct Shared<H: ?Sized> {
    left: Mutex<Left>,
    work: Box<Work<H>>,
    helpers: Mutex<usize>,
    last_helper_left: Condvar,
}

impl<T, H: Host + ?Sized> Queue<T, H> {
    pub(crate) fn new() -> Queue<T, H> {
        Queue::with_room_for(ITEMS_MAX)
    }

    fn with_room_for(items_max: usize) -> Queue<T, H> {
        let state = State { items: VecDeque::new(), shared: Vec::new(), busy: 0, closed: false };
        Queue { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new(), items_max }
    }

    /// Adds an item; waits while the queue is full.
    pub(crate) fn push(&self, item: T) {
        let state = self.lock();
        let full = |state: &mut State<T, H>| state.items.len() >= self.items_max;
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

    /// Works on `host` until the queue is closed and everything in it is done.
    pub(crate) fn work(&self, host: &Arc<H>, mut item: impl FnMut(T)) {
        loop {
            match self.next() {
                Next::Item(next) => {
                    let _busy = Busy(self);
                    item(next);
                }
                Next::Help(shared) => {
                    let _helper = Helper(&shared);
                    shared.help(host);
                }
                Next::GoHome => return,
            }
        }
    }

    /// Takes more items as long as they are `wanted`, at most as many as `count` makes of the number that wait: only
    /// while an item that was handed out is worked on, which is over when all of them are.
    pub(crate) fn take_more(
        &self,
        count: impl FnOnce(usize) -> usize,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Vec<T> {
        let mut state = self.lock();
        let mut taken = Vec::new();
        let count = count(state.items.len());
        while taken.len() < count && state.items.front().is_some_and(&mut wanted) {
            taken.extend(state.items.pop_front());
        }
        drop(state);
        self.room.notify_all();
        taken
    }

    /// Waits until all items that were added so far are done: there is somebody who works.
    pub(crate) fn wait_until_idle(&self) {
        let busy = |state: &mut State<T, H>| !state.items.is_empty() || state.busy > 0;
        drop(self.work.wait_while(self.lock(), busy).expect("no thread panics with the lock"));
    }

    /// Whether all items were handed out and done.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && state.items.is_empty() && state.busy == 0
    }

    /// Runs `work` for each unit, of which the fragments are known, on this thread's `host` and on idle workers'.
    /// Returns when all are done.
    pub(crate) fn share(
        &self,
        homes: impl Iterator<Item = Option<FragmentIndex>>,
        host: &Arc<H>,
        work: impl Fn(usize, &Arc<H>) + Send + Sync + 'static,
    ) {
        let mut left = BTreeMap::<_, VecDeque<usize>>::new();
        homes.enumerate().for_each(|(number, home)| left.entry(home).or_default().push_back(number));
        let shared = Arc::new(Shared {
            left: Mutex::new(Left(left)),
            work: Box::new(work),
            helpers: Mutex::new(0),
            last_helper_left: Condvar::new(),
        });
        self.lock().shared.push(shared.clone());
        self.work.notify_all();
        shared.help(host);
        self.lock().shared.retain(|other| !Arc::ptr_eq(other, &shared));
        shared.wait_for_helpers();
    }

    fn next(&self) -> Next<T, H> {
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

    fn lock(&self) -> MutexGuard<'_, State<T, H>> {
        self.state.lock().expect("no thread panics with the lock")
    }
}

impl Left {
    /// A unit at home, else one of the fragment with most left.
    fn take(&mut self, home: Option<FragmentIndex>) -> Option<usize> {
        if let Some(number) = self.0.get_mut(&home).and_then(VecDeque::pop_front) {
            return Some(number);
        }
        self.0.values_mut().max_by_key(|units| units.len())?.pop_front()
    }
}

impl<H: Host + ?Sized> Shared<H> {
    fn is_exhausted(&self) -> bool {
        self.left().0.values().all(VecDeque::is_empty)
    }

    fn help(&self, host: &Arc<H>) {
        loop {
            let next = self.left().take(host.fragment());
            let Some(number) = next else { return };
            (self.work)(number, host);
        }
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().expect("no thread panics with the lock")
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
pub(crate) struct CloseOnDrop<'a, T, H: Host + ?Sized>(pub(crate) &'a Queue<T, H>);

impl<T, H: Host + ?Sized> Drop for CloseOnDrop<'_, T, H> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// An item in work; over on drop, so that a worker that panics does not leave the others waiting for it.
struct Busy<'a, T, H: Host + ?Sized>(&'a Queue<T, H>);

impl<T, H: Host + ?Sized> Drop for Busy<'_, T, H> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.work.notify_all();
    }
}

/// A helper at its chunks; gone on drop, as above.
struct Helper<'a, H: ?Sized>(&'a Shared<H>);

impl<H: ?Sized> Drop for Helper<'_, H> {
    fn drop(&mut self) {
        *self.0.helpers.lock().expect("no thread panics with the lock") -= 1;
        self.0.last_helper_left.notify_all();
    }
}

#[cfg(test)]
// By its path, as `schedules` has this file under another one.
#[path = "queue/tests.rs"]
mod tests;
