//! Which parts of which objects are being changed: changes that overlap are made one after the other, so that both
//! copies of an object see them in one order.
//!
//! **Invariant:** no two holders have bytes of an object in common.

use std::collections::HashMap;
use std::ops::Range;

use model::Ino;

use super::super::sync::{Condvar, Mutex, MutexGuard};

/// The parts that are held, and those that somebody is to hold next.
#[derive(Debug, Default)]
pub struct Ranges {
    parts: Mutex<Parts>,
    released: Condvar,
}

type ByObject = HashMap<Ino, Vec<Range<u64>>>;

#[derive(Debug, Default)]
struct Parts {
    held: ByObject,
    claimed: ByObject,
}

/// A part of an object that nobody else changes.
#[derive(Debug)]
pub struct Held<'a> {
    ranges: &'a Ranges,
    ino: Ino,
    range: Range<u64>,
}

/// A part of an object that nobody begins to change any more, until this is held or dropped.
#[derive(Debug)]
pub struct Claim<'a> {
    ranges: &'a Ranges,
    ino: Ino,
    range: Range<u64>,
}

impl Ranges {
    /// Waits until nobody holds any of the range, or is to hold it next.
    pub fn hold(&self, ino: Ino, range: Range<u64>) -> Held<'_> {
        let is_taken =
            |parts: &mut Parts| overlaps(&parts.held, ino, &range) || overlaps(&parts.claimed, ino, &range);
        let mut parts = self.released.wait_while(self.lock(), is_taken).expect(POISON);
        parts.held.entry(ino).or_default().push(range.clone());
        drop(parts);
        Held { ranges: self, ino, range }
    }

    /// Lets nobody else begin to hold any of the range: it is free once those are done who hold some now.
    pub fn claim(&self, ino: Ino, range: Range<u64>) -> Claim<'_> {
        self.lock().claimed.entry(ino).or_default().push(range.clone());
        Claim { ranges: self, ino, range }
    }

    /// Whether somebody holds some of an object now.
    pub fn is_busy(&self, ino: Ino) -> bool {
        self.lock().held.contains_key(&ino)
    }

    fn lock(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().expect(POISON)
    }
}

impl<'a> Claim<'a> {
    /// Holds what is claimed; `None` where somebody holds some of it now.
    pub fn try_hold(&self) -> Option<Held<'a>> {
        let mut parts = self.ranges.lock();
        let is_free = !overlaps(&parts.held, self.ino, &self.range);
        is_free.then(|| {
            parts.held.entry(self.ino).or_default().push(self.range.clone());
            Held { ranges: self.ranges, ino: self.ino, range: self.range.clone() }
        })
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        release(&mut self.ranges.lock().claimed, self.ino, &self.range);
        self.ranges.released.notify_all();
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        release(&mut self.ranges.lock().held, self.ino, &self.range);
        self.ranges.released.notify_all();
    }
}

fn release(parts: &mut ByObject, ino: Ino, range: &Range<u64>) {
    let Some(of_object) = parts.get_mut(&ino) else { return };
    if let Some(at) = of_object.iter().position(|part| part == range) {
        of_object.swap_remove(at);
    }
    if of_object.is_empty() {
        parts.remove(&ino);
    }
}

fn overlaps(parts: &ByObject, ino: Ino, range: &Range<u64>) -> bool {
    let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
    parts.get(&ino).is_some_and(|of_object| of_object.iter().any(overlaps))
}

const POISON: &str = "no thread panics while it holds the list of ranges";

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::super::super::sync::{explore, thread};
    use super::*;

    #[test]
    fn only_what_overlaps_waits() {
        explore(|| {
            let ranges = Ranges::default();
            let first = ranges.hold(Ino(1), 0..10);
            assert!(ranges.claim(Ino(1), 9..11).try_hold().is_none());
            let beside = (ranges.hold(Ino(1), 10..11), ranges.hold(Ino(2), 0..10));
            thread::scope(|scope| {
                let waits = scope.spawn(|| drop(ranges.hold(Ino(1), 0..5)));
                drop(first);
                waits.join().unwrap();
            });
            assert!(ranges.is_busy(Ino(1)));
            drop(beside);
            assert!(
                !ranges.is_busy(Ino(1)) && ranges.lock().held.is_empty() && ranges.lock().claimed.is_empty()
            );
        });
    }

    #[test]
    fn what_is_claimed_is_held_next_however_many_others_wait_for_it() {
        explore(|| {
            let ranges = Ranges::default();
            let first = ranges.hold(Ino(1), 0..10);
            let claim = ranges.claim(Ino(1), 0..u64::MAX);
            thread::scope(|scope| {
                let waits = scope.spawn(|| drop(ranges.hold(Ino(1), 20..30)));
                assert!(claim.try_hold().is_none());
                drop(first);
                let held = claim.try_hold().unwrap();
                drop(claim);
                assert!(!waits.is_finished());
                drop(held);
                waits.join().unwrap();
            });
        });
    }

    #[test]
    fn nobody_holds_a_byte_that_another_holds_and_everybody_gets_a_turn() {
        explore(|| {
            let ranges = Ranges::default();
            let holders: [AtomicU32; 4] = Default::default();
            let use_all = |range: Range<u64>| {
                let bytes = &holders[range.start as usize..range.end as usize];
                bytes.iter().for_each(|byte| assert_eq!(byte.fetch_add(1, Ordering::Relaxed), 0));
                thread::yield_now();
                bytes.iter().for_each(|byte| byte.store(0, Ordering::Relaxed));
            };
            thread::scope(|scope| {
                for range in [0..2, 1..3, 2..4] {
                    let (ranges, use_all) = (&ranges, &use_all);
                    scope.spawn(move || {
                        for _ in 0..3 {
                            let held = ranges.hold(Ino(1), range.clone());
                            use_all(range.clone());
                            drop(held);
                        }
                    });
                }
                let claim = ranges.claim(Ino(1), 1..4);
                let held = loop {
                    match claim.try_hold() {
                        Some(held) => break held,
                        None => thread::yield_now(),
                    }
                };
                drop(claim);
                use_all(1..4);
                drop(held);
            });
        });
    }
}
