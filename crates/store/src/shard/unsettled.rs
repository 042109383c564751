//! Which files may be without a writer and without a size that the home knows. When they are measured is
//! [`super::settling`]'s to say.

use std::collections::{BTreeSet, HashMap};

use model::Ino;

/// So many files that have no size are told apart.
const WITHOUT_MAX: usize = 1 << 20;

/// Files that may be without a writer and without a size.
#[derive(Debug, Default)]
pub struct Unsettled {
    /// Any may be.
    all: bool,
    /// These, since it was looked last.
    found: BTreeSet<Ino>,
    /// These, since before.
    due: BTreeSet<Ino>,
    /// Those that were measured and have none, in this epoch.
    without: HashMap<Ino, u64>,
}

impl Unsettled {
    /// Any file may be.
    pub fn all() -> Unsettled {
        Unsettled { all: true, ..Unsettled::default() }
    }

    /// All sizes are doubted.
    pub fn add_all(&mut self) {
        self.all = true;
    }

    /// This one's is, or somebody closed it.
    pub fn add(&mut self, ino: Ino) {
        self.found.insert(ino);
    }

    /// Those that are to be measured now; `None`: any file may be.
    pub fn take_due(&mut self) -> Option<BTreeSet<Ino>> {
        let due = std::mem::replace(&mut self.due, std::mem::take(&mut self.found));
        if std::mem::take(&mut self.all) { None } else { Some(due) }
    }

    /// Whether it has no size in this epoch, for all that is known.
    pub fn is_without(&self, ino: Ino, epoch: u64) -> bool {
        self.without.get(&ino) == Some(&epoch)
    }

    /// They were taken, and are to be taken again.
    pub fn put_back(&mut self, inos: impl Iterator<Item = Ino>) {
        self.due.extend(inos);
    }

    /// It was measured in this epoch, and has no size.
    pub fn has_none(&mut self, ino: Ino, epoch: u64) {
        if self.without.len() >= WITHOUT_MAX {
            self.without.clear();
        }
        self.without.insert(ino, epoch);
    }
}
