//! What syncs have confirmed.

use model::{FragmentIndex, Ino};

use super::Commits;

/// A moment: what was changed after it is not confirmed by a sync that began at it.
#[derive(Clone, Copy, Debug)]
pub struct Moment(pub(super) u64);

impl Commits {
    /// For a sync that is about to begin.
    pub fn moment(&self) -> Moment {
        Moment(self.lock().changes)
    }

    /// Every sync of the file, and of the metadata, that began at `moment` has succeeded.
    pub fn confirmed(&self, inos: &[Ino], moment: Moment) {
        let mut state = self.lock();
        for ino in inos {
            for fragment in self.layout.fragments_of(*ino) {
                if state.objects.get(&(*ino, fragment)).is_some_and(|change| *change <= moment.0) {
                    state.objects.remove(&(*ino, fragment));
                }
            }
        }
        state.metadata = state.metadata.filter(|change| *change > moment.0);
    }

    /// A sync of these that began at `moment` confirms nothing of them, as a disk has lost something: they count as
    /// changed now.
    pub fn not_confirmed(&self, inos: &[Ino], moment: Moment) {
        let mut state = self.lock();
        state.changes += u64::from(!inos.is_empty());
        let now = state.changes;
        let of = |((ino, _), _): &(&(Ino, FragmentIndex), &mut u64)| inos.contains(ino);
        let old = state.objects.iter_mut().filter(of).filter(|(_, change)| **change <= moment.0);
        old.for_each(|(_, change)| *change = now);
    }
}
