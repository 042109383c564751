//! The keys of an instance that a storage node takes: one, and two while the key is being changed.
//!
//! ```text
//! step 3n       K             settled
//! step 3n + 1   K,  takes L   every node takes both before any shows the new one
//! step 3n + 2   L,  takes K   every node shows the new one, and mounts get credentials of it
//! step 3n + 3   L             what was made of K opens nothing
//! ```
//!
//! **Invariant:** no step is taken back: what a node hears late of an earlier one changes nothing.

use std::sync::{Arc, PoisonError, RwLock};

use super::key::Key;

/// The steps of a change.
pub const STEPS: u64 = 3;

/// The keys of an instance here. Clones share them.
#[derive(Clone, Debug)]
pub struct Keys(Arc<RwLock<Known>>);

/// Whether a key that is shown in the step `now` is out of use in the step `later`: a change was finished since, or its
/// last step begun.
pub fn is_former(now: u64, later: u64) -> bool {
    later / STEPS > now / STEPS
}

/// What is known of them at one time.
#[derive(Clone, Debug)]
struct Known {
    shown: Key,
    other: Option<Key>,
    step: u64,
}

impl Known {
    fn all(&self) -> impl Iterator<Item = &Key> {
        [Some(&self.shown), self.other.as_ref()].into_iter().flatten()
    }
}

impl Keys {
    /// The one that is shown to others, and one that is taken as well.
    pub fn new(shown: Key, other: Option<Key>, step: u64) -> Keys {
        Keys(Arc::new(RwLock::new(Known { shown, other, step })))
    }

    /// The one to show to others.
    pub fn shown(&self) -> Key {
        self.read(|known| known.shown.clone())
    }

    /// Whether what is said by the one that is shown is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.read(|known| known.shown.is_encrypted())
    }

    /// How often the keys were changed.
    pub fn step(&self) -> u64 {
        self.read(|known| known.step)
    }

    /// The first that is taken and right.
    pub fn find(&self, is_right: impl Fn(&Key) -> bool) -> Option<Key> {
        self.read(|known| known.all().find(|key| is_right(key)).cloned())
    }

    /// Changes them, unless a later change is known. Replies whether one that was taken is not taken any more.
    pub fn change(&self, shown: Key, other: Option<Key>, step: u64) -> bool {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if step <= known.step {
            return false;
        }
        let before = std::mem::replace(&mut *known, Known { shown, other, step });
        before.all().any(|key| known.all().all(|taken| taken != key))
    }

    fn read<T>(&self, look: impl FnOnce(&Known) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl From<Key> for Keys {
    fn from(key: Key) -> Keys {
        Keys::new(key, None, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_heard_late_changes_no_key() {
        let [old, new] = [1, 2].map(|byte| Key::from_bytes([byte; 32]));
        let takes = |keys: &Keys, key: &Key| keys.find(|known| known == key).is_some();
        let keys = Keys::from(old.clone());
        let shared = keys.clone();
        assert!(!keys.change(old.clone(), Some(new.clone()), 1), "both are taken");
        assert!(takes(&shared, &old) && takes(&shared, &new) && shared.shown() == old);
        assert!(!keys.change(new.clone(), Some(old.clone()), 2));
        assert!(keys.change(new.clone(), None, 3), "the old one is not taken any more");
        assert!(!keys.change(old.clone(), Some(new.clone()), 1));
        assert!(!takes(&shared, &old) && shared.shown() == new && shared.step() == 3);
    }

    #[test]
    fn a_key_is_out_of_use_once_the_last_step_of_a_change_is_begun() {
        assert!([(0, 2), (1, 2), (3, 5), (4, 4)].iter().all(|(now, later)| !is_former(*now, *later)));
        assert!([(0, 3), (2, 3), (3, 6), (1, 7)].iter().all(|(now, later)| is_former(*now, *later)));
    }

    #[test]
    fn who_missed_a_step_knows_all_the_same_that_a_key_is_not_taken_any_more() {
        let [old, new, newest] = [1, 2, 3].map(|byte| Key::from_bytes([byte; 32]));
        let keys = Keys::new(new.clone(), Some(old), 2);
        assert!(keys.change(new, Some(newest), 4));
    }
}
