//! Threads that wait for what may take long: so many and no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many wait now.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    now: Arc<AtomicUsize>,
    max: usize,
}

/// A place among those who wait, until it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Waiting {
    pub(super) fn new(max: usize) -> Waiting {
        Waiting { now: Arc::default(), max }
    }

    /// A place, unless all are taken.
    pub(super) fn enter(&self) -> Option<Place> {
        let place = Place(Arc::clone(&self.now));
        (self.now.fetch_add(1, Ordering::Relaxed) < self.max).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_wait_at_once_and_a_place_is_given_back() {
        let waiting = Waiting::new(100);
        let mut places: Vec<Place> = (0..100).map(|_| waiting.enter().unwrap()).collect();
        assert!(waiting.enter().is_none());
        places.pop();
        assert!(waiting.enter().is_some());
    }
}
