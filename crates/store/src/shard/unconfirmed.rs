//! Files that were destroyed, and of which a fragment that loses its power may bring back an object. When that is over
//! is [`super::destroy`]'s to say.

use std::collections::BTreeSet;

use model::Ino;

use super::record::Record;

/// Files whose objects were removed from every fragment, as the log has it.
#[derive(Clone, Debug, Default)]
pub struct Unconfirmed {
    /// Since it was looked last.
    fresh: BTreeSet<Ino>,
    /// Before.
    due: BTreeSet<Ino>,
}

impl Unconfirmed {
    /// Follows the log.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Destroyed { ino } => drop(self.fresh.insert(*ino)),
            Record::Confirmed { inos } => inos.iter().for_each(|ino| {
                self.fresh.remove(ino);
                self.due.remove(ino);
            }),
            _ => {}
        }
    }

    /// The records that make the same.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        self.due.union(&self.fresh).map(|ino| Record::Destroyed { ino: *ino })
    }

    /// Those that were there when this was asked last.
    pub fn take_due(&mut self) -> Vec<Ino> {
        let due = self.due.iter().copied().collect();
        self.due.append(&mut self.fresh);
        due
    }
}
