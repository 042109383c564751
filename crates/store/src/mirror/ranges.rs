//! Which parts of which objects are being changed: changes that overlap are made one after the other, so that both
//! copies of an object see them in one order.
//!
//! **Invariant:** no two holders have bytes of an object in common.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard};

/// The parts that are held.
#[derive(Debug, Default)]
pub struct Ranges {
    held: Mutex<HashMap<u64, Vec<Range<u64>>>>,
    released: Condvar,
}

/// A part of an object that nobody else changes.
#[derive(Debug)]
pub struct Held<'a> {
    ranges: &'a Ranges,
    ino: u64,
    range: Range<u64>,
}

impl Ranges {
    /// Waits until nobody holds any of the range.
    pub fn hold(&self, ino: u64, range: Range<u64>) -> Held<'_> {
        let held = self.lock();
        let mut held = self.released.wait_while(held, |held| is_held(held, ino, &range)).expect(POISON);
        self.take(&mut held, ino, range)
    }

    /// The same; `None` where somebody holds some of it now.
    pub fn try_hold(&self, ino: u64, range: Range<u64>) -> Option<Held<'_>> {
        let mut held = self.lock();
        let is_free = !is_held(&held, ino, &range);
        is_free.then(|| self.take(&mut held, ino, range))
    }

    fn take(&self, held: &mut HashMap<u64, Vec<Range<u64>>>, ino: u64, range: Range<u64>) -> Held<'_> {
        held.entry(ino).or_default().push(range.clone());
        Held { ranges: self, ino, range }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Range<u64>>>> {
        self.held.lock().expect(POISON)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.ranges.lock();
        if let Some(of_object) = held.get_mut(&self.ino) {
            if let Some(at) = of_object.iter().position(|range| *range == self.range) {
                of_object.swap_remove(at);
            }
            if of_object.is_empty() {
                held.remove(&self.ino);
            }
        }
        drop(held);
        self.ranges.released.notify_all();
    }
}

fn is_held(held: &HashMap<u64, Vec<Range<u64>>>, ino: u64, range: &Range<u64>) -> bool {
    let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
    held.get(&ino).is_some_and(|of_object| of_object.iter().any(overlaps))
}

const POISON: &str = "no thread panics while it holds the list of ranges";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_overlaps_waits() {
        let ranges = Ranges::default();
        let first = ranges.hold(1, 0..10);
        assert!(ranges.try_hold(1, 9..11).is_none());
        let beside = (ranges.try_hold(1, 10..11).unwrap(), ranges.try_hold(2, 0..10).unwrap());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| drop(ranges.hold(1, 0..5)));
            drop(first);
            waits.join().unwrap();
        });
        drop(beside);
        assert!(ranges.lock().is_empty());
    }
}
