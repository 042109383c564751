//! Which objects may differ from their mirror.

use std::collections::BTreeSet;

/// Beyond so many they are not told apart.
const MOST: usize = 1 << 20;

/// Objects that are to be copied.
#[derive(Debug, PartialEq, Eq)]
pub enum Todo {
    /// Any, also such as the mirror alone has.
    All,
    /// These.
    These(BTreeSet<u64>),
}

/// Nothing is known at first.
impl Default for Todo {
    fn default() -> Todo {
        Todo::All
    }
}

impl Todo {
    /// Nothing.
    pub fn none() -> Todo {
        Todo::These(BTreeSet::new())
    }

    /// These, too.
    pub fn add(&mut self, inos: &[u64]) {
        let Todo::These(these) = self else { return };
        these.extend(inos);
        if these.len() > MOST {
            *self = Todo::All;
        }
    }

    /// How many; `None` where that is not known.
    pub fn count(&self) -> Option<u64> {
        match self {
            Todo::All => None,
            Todo::These(these) => Some(these.len() as u64),
        }
    }

    /// Whether there is nothing to be done.
    pub fn is_none(&self) -> bool {
        *self == Todo::none()
    }
}
