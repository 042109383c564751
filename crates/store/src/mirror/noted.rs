//! What the mirror's node has noted that the mirror lacks: by that alone another node may take this one's place, and
//! loses nothing but these objects, by name.
//!
//! **Invariant:** what control is told to be named stays so until it knows of another doubt: nothing is answered before
//! that the mirror lacks and has not noted.

use std::collections::BTreeSet;

use model::Ino;

use super::Mirror;
use super::progress::{Note, Progress, Way};
use super::todo::Todo;

/// Beyond so many they are not named.
pub(crate) const LACKING_MAX: usize = 20_000;

impl Progress {
    /// What it is now, where these are lost on both nodes.
    fn note(&self, lost: Vec<Ino>) -> Note {
        let Todo::These(lacking) = &self.lacking else { return None };
        let all: BTreeSet<Ino> = lacking.iter().copied().chain(lost).collect();
        (all.len() <= LACKING_MAX).then_some(all)
    }

    /// The mirror may soon lack what it has not noted.
    pub fn unname(&mut self) {
        if std::mem::take(&mut self.named) { self.doubt.renew() } else { self.doubt.begin() }
    }

    /// Whether changes may be made here alone, as far as control is to know of it.
    pub fn may_go_alone(&mut self) -> bool {
        if self.named && self.doubt.permits() {
            self.unname();
        }
        self.doubt.permits()
    }

    /// These were changed here, and not there.
    pub fn lack(&mut self, inos: &[Ino]) {
        self.todo.add(inos);
        self.lacking.add(inos);
    }

    /// This one was copied as a whole.
    pub fn copied(&mut self, ino: Ino) {
        // It may have been changed once more.
        if !self.todo.has(&[ino]) {
            self.lacking.remove(ino);
        }
    }
}

impl Mirror {
    /// What its node is to note now, where these are lost on both nodes.
    pub(crate) fn to_note(&self, lost: Vec<Ino>) -> Note {
        let mut progress = self.lock();
        let note = progress.note(lost);
        if note.is_none() && progress.doubt.exists() {
            // The mirror is not taken for this one from here on, which control must not find out by trying.
            progress.doubt.begin();
        }
        note
    }

    /// Its node has noted that, by a connection of the time `epoch`.
    pub(crate) fn noted(&self, note: &Note, epoch: u64) {
        let mut progress = self.lock();
        if let (Some(noted), Todo::These(lacking)) = (note, &progress.lacking) {
            let is_here = progress.way == Way::Both && progress.epoch == epoch;
            progress.named = is_here && lacking.is_subset(noted);
        }
    }

    /// The mirror of this object is about to be thrown away.
    pub(crate) fn lacks_all_of(&self, ino: Ino) {
        self.lock().lacking.add(&[ino]);
    }

    /// It was copied as a whole.
    pub(crate) fn copied(&self, ino: Ino) {
        self.lock().copied(ino);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doubt::Doubt;

    #[test]
    fn nobody_goes_alone_before_control_knows_that_the_mirror_has_not_noted_what_it_lacks() {
        let mut progress = Progress::new(false, Doubt::new(true));
        progress.doubt.begin();
        let first = progress.doubt.untold().unwrap();
        progress.named = true;
        assert!(progress.doubt.hear(&[first]));
        assert!(
            !progress.may_go_alone() && !progress.named,
            "control knew of a mirror that names what it lacks"
        );
        assert!(!progress.doubt.hear(&[first]));
        let second = progress.doubt.untold().unwrap();
        assert!(progress.doubt.hear(&[second]) && progress.may_go_alone());
    }

    #[test]
    fn what_is_changed_again_while_it_is_copied_lacks_still() {
        let mut progress = Progress::new(false, Doubt::new(true));
        assert_eq!(progress.note(Vec::new()), None, "nothing is known at first");
        (progress.todo, progress.lacking) = (Todo::none(), Todo::none());
        progress.lack(&[Ino(7), Ino(8)]);
        progress.todo = Todo::none();
        progress.lack(&[Ino(8)]);
        [7, 8].map(Ino).iter().for_each(|ino| progress.copied(*ino));
        assert_eq!(
            progress.note(vec![Ino(9)]),
            Some(BTreeSet::from([8, 9].map(Ino))),
            "with what is lost on both"
        );
    }
}
