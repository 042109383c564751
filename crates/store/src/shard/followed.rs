//! Which commit verifiers the other fragments had, and which files they were told to cut off. What follows when one has
//! another verifier is [`super::following`]'s to say.

use std::collections::{BTreeMap, BTreeSet};

use model::{FragmentIndex, Ino};

use super::record::{AttrChange, Record};

/// So many files are told apart; where more were cut off, any may be one.
const CUT_MAX: usize = 1 << 16;

/// The other fragments, and what they may lose, as the log has it.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The commit verifiers of other fragments.
    verifiers: BTreeMap<FragmentIndex, u64>,
    /// The files that were cut off; whether those were synced since is not known here.
    cut: BTreeSet<Ino>,
    /// Others were, too.
    overflown: bool,
}

impl Followed {
    /// A file is about to be cut off.
    pub fn cut(&mut self, ino: Ino) {
        if self.cut.len() >= CUT_MAX && !self.cut.contains(&ino) {
            self.cut.clear();
            self.overflown = true;
        }
        self.cut.insert(ino);
    }

    /// Follows the log.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::SetAttr { ino, change: AttrChange { size: Some(_), .. } } => self.cut(*ino),
            Record::Destroyed { ino } => drop(self.cut.remove(ino)),
            Record::Followed { fragment, verifier } => {
                self.verifiers.insert(*fragment, *verifier);
            }
            Record::Cut { inos, overflown } => {
                self.overflown |= overflown;
                inos.iter().for_each(|ino| self.cut(*ino));
            }
            _ => {}
        }
    }

    /// The records that make the same.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let verifiers = self.verifiers.iter();
        let followed = verifiers
            .map(|(fragment, verifier)| Record::Followed { fragment: *fragment, verifier: *verifier });
        let cut = (!self.is_idle())
            .then(|| Record::Cut { inos: self.cut.iter().copied().collect(), overflown: self.overflown });
        followed.chain(cut)
    }

    /// Those of all others that were asked.
    pub fn verifiers(&self) -> BTreeMap<FragmentIndex, u64> {
        self.verifiers.clone()
    }

    /// The commit verifier that a fragment had when it was last asked.
    pub fn verifier_of(&self, fragment: FragmentIndex) -> Option<u64> {
        self.verifiers.get(&fragment).copied()
    }

    /// The files that were cut off, and whether others were, too.
    pub fn cut_off(&self) -> (Vec<Ino>, bool) {
        (self.cut.iter().copied().collect(), self.overflown)
    }

    /// Whether there is nothing that a fragment could lose.
    pub fn is_idle(&self) -> bool {
        self.cut.is_empty() && !self.overflown
    }
}
