//! Changes of one file that go past the kernel's pages, beside reads that fill pages.
//!
//! The kernel writes back and drops the pages below a direct write before it sends the write, and lets them be filled
//! again while the write is under way. A page that is filled then has the old bytes: a mapping shows them after the
//! write has returned, and once something is stored into that page it is written back whole, over what was written. So
//! a change is made in three steps:
//!
//! ```text
//! dropping   only where pages may be: the kernel is told to write them back and drop them. Fills are answered, as
//!            the kernel may wait for one; where one came in between, pages are dropped again
//! changing   fills of these pages wait, so that there is no page
//! over       fills that waited are answered, with the new bytes
//! ```
//!
//! **Invariant:** while a range is being changed the kernel has no page of it and gets none. Only fills wait, and only
//! for the change itself: neither for another fill nor for pages to be written back.

use std::ops::Range;

use super::ranges::Ranges;
use super::tail::{End, Tail};

/// The changes and fills of one file; `T` is a fill that waits.
#[derive(Debug)]
pub struct Beside<T> {
    /// Where the kernel may have pages.
    filled: Ranges,
    /// The page of the file's end, if it is among these.
    pub tail: Tail,
    changes: Vec<Change>,
    waiting: Vec<(Range<u64>, T)>,
}

#[derive(Debug)]
struct Change {
    number: u64,
    range: Range<u64>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// `refilled`: a fill came since the kernel was last told.
    Dropping {
        refilled: bool,
    },
    Changing,
}

/// What a change has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Have the kernel drop the pages, then ask [`Beside::dropped`].
    Drop,
    /// Change the bytes.
    Change,
}

impl<T> Beside<T> {
    /// Of a file whose pages the kernel has where `filled` says.
    pub fn new(filled: Ranges) -> Beside<T> {
        let tail = Tail::new(if filled.is_empty() { End::Elsewhere } else { End::Unknown });
        Beside { filled, tail, changes: Vec::new(), waiting: Vec::new() }
    }

    /// A fill of `range` begins: itself, if it is to be answered now. Else it comes back from [`Beside::over`].
    pub fn fill(&mut self, range: Range<u64>, fill: T) -> Option<T> {
        let overlapping = || self.changes.iter().filter(|change| overlap(&change.range, &range));
        if overlapping().any(|change| change.state == State::Changing) {
            self.waiting.push((range, fill));
            return None;
        }
        self.filled(&range);
        for change in self.changes.iter_mut().filter(|change| overlap(&change.range, &range)) {
            change.state = State::Dropping { refilled: true };
        }
        Some(fill)
    }

    /// The kernel got pages of `range` otherwise.
    pub fn filled(&mut self, range: &Range<u64>) {
        self.filled.insert(range);
        self.tail.filled(range);
    }

    /// The change `number`, of `range`, which is whole pages, begins: what it does first.
    pub fn begin(&mut self, number: u64, range: Range<u64>) -> Step {
        let (state, step) = if self.filled.overlaps(&range) {
            (State::Dropping { refilled: false }, Step::Drop)
        } else {
            (State::Changing, Step::Change)
        };
        self.changes.push(Change { number, range, state });
        step
    }

    /// The kernel has dropped the pages of a change that is [`Step::Drop`].
    pub fn dropped(&mut self, number: u64) -> Step {
        let Some(change) = self.changes.iter_mut().find(|change| change.number == number) else {
            return Step::Change;
        };
        if change.state == (State::Dropping { refilled: true }) {
            change.state = State::Dropping { refilled: false };
            return Step::Drop;
        }
        change.state = State::Changing;
        self.filled.remove(&change.range);
        self.tail.dropped(&change.range);
        Step::Change
    }

    /// A change is over, whatever became of it: the fills that waited for it, which begin anew.
    pub fn over(&mut self, number: u64) -> Vec<T> {
        self.changes.retain(|change| change.number != number);
        let changes = &self.changes;
        let stays = |range: &Range<u64>| {
            let mut overlapping = changes.iter().filter(|change| overlap(&change.range, range));
            overlapping.any(|change| change.state == State::Changing)
        };
        self.waiting.extract_if(.., |(range, _)| !stays(range)).map(|(_, fill)| fill).collect()
    }
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Beside<&'static str> {
        Beside::new(Ranges::default())
    }

    #[test]
    fn a_change_where_no_pages_are_is_made_at_once_and_fills_wait_for_it() {
        let mut beside = fresh();
        assert_eq!(beside.begin(7, 0..4096), Step::Change);
        assert_eq!(beside.fill(0..8192, "waits"), None);
        assert_eq!(beside.fill(4096..8192, "elsewhere"), Some("elsewhere"));
        assert_eq!(beside.over(7), ["waits"]);
        assert_eq!(beside.fill(0..8192, "waits"), Some("waits"));
    }

    #[test]
    fn pages_are_dropped_before_a_change_and_again_when_one_was_filled_meanwhile() {
        let mut beside = fresh();
        assert_eq!(beside.fill(0..4096, "first"), Some("first"));
        assert_eq!(beside.begin(6, 4096..8192), Step::Change, "no page is there");
        assert_eq!(beside.begin(7, 0..4096), Step::Drop);
        // The kernel may be waiting for this one before it can drop anything.
        assert_eq!(beside.fill(0..4096, "answered"), Some("answered"));
        assert_eq!(beside.dropped(7), Step::Drop);
        assert_eq!(beside.dropped(7), Step::Change);
        assert_eq!(beside.fill(0..4096, "waits"), None);
        assert_eq!(beside.over(7), ["waits"]);
        assert_eq!(beside.begin(8, 0..4096), Step::Change, "what was dropped is gone");
    }

    #[test]
    fn a_fill_waits_for_every_change_that_it_overlaps() {
        let mut beside = fresh();
        assert_eq!([beside.begin(1, 0..4096), beside.begin(2, 0..4096)], [Step::Change; 2]);
        assert_eq!(beside.fill(0..4096, "waits"), None);
        assert!(beside.over(1).is_empty());
        assert_eq!(beside.over(2), ["waits"]);
    }

    #[test]
    fn one_of_two_changes_that_drop_the_same_pages_never_takes_the_others_word() {
        let mut beside = Beside::new(Ranges::all());
        assert_eq!(beside.begin(1, 0..4096), Step::Drop);
        assert_eq!(beside.fill(0..4096, "between"), Some("between"));
        assert_eq!(beside.begin(2, 0..4096), Step::Drop);
        assert_eq!(beside.dropped(2), Step::Change);
        assert_eq!(beside.dropped(1), Step::Drop);
    }

    #[test]
    fn a_change_that_is_given_up_keeps_nobody_waiting() {
        let mut beside = Beside::new(Ranges::all());
        assert_eq!(beside.begin(7, 0..4096), Step::Drop);
        assert!(beside.over(7).is_empty());
        assert_eq!(beside.fill(0..4096, "now"), Some("now"));
    }
}
