//! How many refused requests of one user are written down one by one: the log is everybody's, and nobody is to fill it.
//!
//! ```text
//! the first ONE_BY_ONE of a WINDOW: a line each; the rest: counted, and one line with the next request of anybody's
//! after the window
//! ```

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How long refusals of a user are counted together.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// So many of them have a line each: more than anybody types.
pub(super) const ONE_BY_ONE: u64 = 20;

/// The refusals of each user in his present window.
#[derive(Default)]
pub(super) struct Refusals(HashMap<u32, (Instant, u64)>);

impl Refusals {
    /// Another of the user's; whether it has a line of its own.
    pub(super) fn has_line(&mut self, uid: u32, now: Instant) -> bool {
        let (_, count) = self.0.entry(uid).or_insert((now, 0));
        *count += 1;
        *count <= ONE_BY_ONE
    }

    /// The users whose window is over, with how many of their refusals have no line.
    pub(super) fn over(&mut self, now: Instant) -> Vec<(u32, u64)> {
        let is_over = |_: &u32, (begun, _): &mut (Instant, u64)| now.duration_since(*begun) >= WINDOW;
        let over = self.0.extract_if(is_over);
        over.map(|(uid, (_, count))| (uid, count.saturating_sub(ONE_BY_ONE)))
            .filter(|(_, left)| *left > 0)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_window_have_a_line_and_the_others_are_counted() {
        let (mut refusals, begun) = (Refusals::default(), Instant::now());
        let lines = (0..50).filter(|_| refusals.has_line(1000, begun)).count();
        assert_eq!(lines, 20);
        assert!(refusals.has_line(1001, begun), "each user's are his own");
        assert_eq!(refusals.over(begun + WINDOW / 2), []);
        assert_eq!(refusals.over(begun + WINDOW), [(1000, 30)]);
        assert!(refusals.has_line(1000, begun + WINDOW), "a new window");
    }
}
