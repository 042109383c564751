//! Which objects may differ from their mirror.

use std::collections::BTreeSet;

use model::Ino;

/// Beyond so many they are not told apart.
const MOST: usize = 1 << 20;

/// Objects that are to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Todo {
    /// Any, also such as the mirror alone has.
    All,
    /// These.
    These(BTreeSet<Ino>),
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
    pub fn add(&mut self, inos: &[Ino]) {
        let Todo::These(these) = self else { return };
        these.extend(inos);
        if these.len() > MOST {
            *self = Todo::All;
        }
    }

    /// This one no more, where they are told apart.
    pub fn remove(&mut self, ino: Ino) {
        if let Todo::These(these) = self {
            these.remove(&ino);
        }
    }

    /// Whether these are among them.
    pub fn has(&self, inos: &[Ino]) -> bool {
        match self {
            Todo::All => true,
            Todo::These(these) => inos.iter().all(|ino| these.contains(ino)),
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

/// Objects in the order in which they are copied: those that somebody is changing come last.
#[derive(Debug)]
pub struct Queue {
    left: BTreeSet<Ino>,
    busy: BTreeSet<Ino>,
}

impl Queue {
    /// Of these.
    pub fn new(left: BTreeSet<Ino>) -> Queue {
        Queue { left, busy: BTreeSet::new() }
    }

    /// The next one.
    pub fn next(&mut self, is_busy: impl Fn(Ino) -> bool) -> Option<Ino> {
        while let Some(ino) = self.left.pop_first() {
            if !is_busy(ino) {
                return Some(ino);
            }
            self.busy.insert(ino);
        }
        self.busy.pop_first()
    }

    /// Those that are left.
    pub fn rest(self) -> impl Iterator<Item = Ino> {
        self.left.into_iter().chain(self.busy)
    }
}
