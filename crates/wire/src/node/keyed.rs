//! The keys that the specification of a fragment names.

use super::FragmentSpec;
use crate::data::hello::Key;
use crate::data::keys::Keys;

impl FragmentSpec {
    /// The keys that are taken; `None` where what is shown is none.
    pub fn keys(&self) -> Option<Keys> {
        Some(Keys::new(Key::from_hex(&self.key)?, Key::from_hex(&self.other_key), self.key_step))
    }

    /// Whether who has the keys of `other` has not lost touch with who has these: each step has keys of its own, and
    /// one after the other has one in common with that.
    pub fn is_in_touch_with(&self, other: &FragmentSpec) -> bool {
        let are_same = (&self.key, &self.other_key) == (&other.key, &other.other_key);
        are_same || (self.key_step != other.key_step && self.has_key_of(other))
    }

    fn has_key_of(&self, other: &FragmentSpec) -> bool {
        let of_other = [&other.key, &other.other_key].into_iter().filter(|key| !key.is_empty());
        of_other.into_iter().any(|key| [&self.key, &self.other_key].contains(&key))
    }

    /// Whether both are of one instance: control signs their stages with the same key, which is never changed, or they
    /// have a key in common, as before there was that.
    pub fn is_of_instance_of(&self, other: &FragmentSpec) -> bool {
        if !self.stage_verifier.is_empty() && !other.stage_verifier.is_empty() {
            return self.stage_verifier == other.stage_verifier;
        }
        self.has_key_of(other)
    }
}
