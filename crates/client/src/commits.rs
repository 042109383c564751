//! What storage nodes have answered and no sync has confirmed yet, and what they lost of it.
//!
//! Each fragment has a commit verifier: a number that changes exactly when what it was written, and had not synced, may
//! be lost. It is learned when a life of connections begins, before anything is asked in it. If it is another one than
//! before, every file with unconfirmed writes there has lost them; if it is the home shard's, names and attributes,
//! too. Syncs of those files fail then, once for each handle ([`Failures`]), although the node itself says that all is
//! well.
//!
//! **Invariant:** a change is noted before its caller knows that it was answered; what is not noted any more counts as
//! unconfirmed on every fragment.

mod changing;
mod concerned;
mod confirmed;
mod handed;
mod home;
mod syncs;
mod telling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use model::{FragmentIndex, Ino, stripe::Layout};
use rustix::io::Errno;
use wire::data::Request;
use wire::data::message::{Change, EVERYTHING, NAMES};

pub use confirmed::Moment;

use crate::failures::Failures;
use crate::known::Known;
use crate::losses::Losses;

/// For who has none: older than every failure.
pub const NO_HANDLE: u64 = 0;

/// So many unconfirmed (file, fragment) are told apart: 16 MiB. Where there are more, any file may be one.
const UNCONFIRMED_MAX: usize = 1 << 18;

/// What a successor of this process must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The verifier of each fragment that was used.
    pub verifiers: Vec<(FragmentIndex, u64)>,
    /// What was lost, and who was told.
    pub failures: Failures,
}

/// Somebody who keeps it for the successor, told before anything follows from it.
pub trait Memory: Send + Sync {
    /// The fragment has this verifier.
    fn verifier(&self, fragment: FragmentIndex, verifier: u64);
    /// [`Failures::failed`].
    fn failed(&self, ino: Ino, stamp: u64, errno: i32);
    /// [`Failures::told`].
    fn told(&self, ino: Ino, handle: u64);
    /// What was answered before may be gone, so whatever is kept of it is to be asked for again. Not to be waited for:
    /// this is told by who talks with the node, and with this client's state locked.
    fn lost(&self);
}

/// The commits of one client.
pub struct Commits {
    layout: Layout,
    home: FragmentIndex,
    state: Mutex<State>,
    memory: OnceLock<Arc<dyn Memory>>,
    known: OnceLock<Arc<Known>>,
    under_way: changing::UnderWay,
}

#[derive(Default)]
struct State {
    verifiers: HashMap<FragmentIndex, u64>,
    /// The number of the latest unconfirmed change, by inode and fragment.
    objects: HashMap<(Ino, FragmentIndex), u64>,
    handed: handed::Handles,
    /// That of names and attributes.
    metadata: Option<u64>,
    /// Unconfirmed writes may also be in files that `objects` does not have.
    overflown: bool,
    /// Fragments on which a former process may have written to any file, until the home answers for it.
    inherited: BTreeSet<FragmentIndex>,
    /// It was told of some of that.
    left_told: bool,
    /// It does not answer for all of it now: it does when all is confirmed.
    declined: bool,
    /// It may have forgotten.
    forgotten: bool,
    changes: u64,
    /// So often a fragment was found to have another verifier than before.
    replaced: u64,
    failures: Failures,
    /// Losses that may concern any file.
    losses: u64,
    doubts: Doubts,
    /// What the home shard is to hear, and says.
    told_home: Losses,
    /// So many changes there were when the home was told that all are confirmed.
    told_confirmed: Option<u64>,
}

/// Files whose sizes the home shard is to ask the fragments for, before it is asked anything else: one of those lost
/// changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doubts {
    /// These.
    pub files: Vec<Ino>,
    /// Any, as of the loss with this number.
    pub all: Option<u64>,
}

/// What a node has lost, or may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// So many files had unconfirmed writes there.
    pub files: usize,
    /// Files that are not known, or names and attributes.
    pub others: bool,
}

impl Commits {
    /// Nothing is written yet, but for what a former process may have that remembered this.
    pub fn new(layout: Layout, home: FragmentIndex, remembered: Remembered) -> Commits {
        let is_resumed = !remembered.verifiers.is_empty();
        let state = State {
            inherited: remembered.verifiers.iter().map(|(fragment, _)| *fragment).collect(),
            verifiers: remembered.verifiers.into_iter().collect(),
            metadata: is_resumed.then_some(0),
            failures: remembered.failures,
            ..State::default()
        };
        let (state, under_way) = (Mutex::new(state), changing::UnderWay::default());
        Commits { layout, home, state, memory: OnceLock::new(), known: OnceLock::new(), under_way }
    }

    /// When names are lost, `known` is to hear of it. The first call counts.
    pub fn doubt(&self, known: Arc<Known>) {
        let _set = self.known.set(known);
    }

    /// Lets `memory` keep everything for a successor from now on. The first call counts.
    pub fn keep_in(&self, memory: Arc<dyn Memory>) {
        let state = self.lock();
        state.verifiers.iter().for_each(|(fragment, verifier)| memory.verifier(*fragment, *verifier));
        let _set = self.memory.set(memory);
    }

    /// The fragment's verifier, where it is known.
    pub fn verifier(&self, fragment: FragmentIndex) -> Option<u64> {
        self.lock().verifiers.get(&fragment).copied()
    }

    /// Grows whenever a fragment is found to have another verifier than before.
    pub fn replaced(&self) -> u64 {
        self.lock().replaced
    }

    /// A life of connections to a fragment begins, and it has this verifier. What was lost since the last.
    pub fn begin(&self, fragment: FragmentIndex, verifier: u64) -> Option<Loss> {
        let mut state = self.lock();
        let before = state.verifiers.insert(fragment, verifier);
        self.announce(&mut state, fragment, verifier, before.is_none());
        let is_lost = before.is_some_and(|before| before != verifier);
        state.replaced += u64::from(is_lost);
        let loss = is_lost.then(|| self.lose(&mut state, fragment));
        // Last: a successor that finds the new number must find the failures, too.
        self.remember(|memory| memory.verifier(fragment, verifier));
        loss.filter(|loss| *loss != Loss::default())
    }

    fn lose(&self, state: &mut State, fragment: FragmentIndex) -> Loss {
        let written = state.objects.keys().filter(|(_, other)| *other == fragment).map(|(ino, _)| ino);
        let lost: Vec<Ino> = written.copied().chain(state.handed.lose()).collect();
        let has_metadata = fragment == self.home && state.metadata.is_some();
        let any = state.overflown || state.inherited.remove(&fragment);
        let others = any || has_metadata;
        state.lost(fragment, lost.iter().copied().chain(has_metadata.then_some(NAMES)), any);
        if others {
            self.fail(state, if any { EVERYTHING } else { NAMES }, Errno::IO);
        }
        for ino in &lost {
            state.objects.remove(&(*ino, fragment));
            self.fail(state, *ino, Errno::IO);
        }
        // The home shard itself doubts them all.
        if fragment != self.home {
            state.doubts.files.extend(&lost);
            if any {
                state.losses += 1;
                state.doubts.all = Some(state.losses);
            }
        }
        if has_metadata {
            state.metadata = None;
        }
        // Also what others have lost, or a former process of this mount, may be kept here.
        self.forget(others);
        Loss { files: lost.len(), others }
    }

    fn forget(&self, names: bool) {
        if names {
            self.known.get().into_iter().for_each(|known| known.lost());
        }
        self.remember(|memory| memory.lost());
    }

    /// A fragment whose verifier was this has answered a request with success.
    pub fn answered(&self, fragment: FragmentIndex, verifier: u64, request: &Request) {
        match request.changes() {
            Change::None => {}
            Change::Object(ino) => self.lock_and(|state| self.change_object(state, ino, fragment, verifier)),
            Change::Metadata => self.lock_and(|state| self.change_metadata(state, verifier)),
            Change::MetadataAndObjects(ino) => self.lock_and(|state| {
                self.change_metadata(state, verifier);
                for fragment in self.layout.fragments_of(ino) {
                    let verifier = state.verifiers.get(&fragment).copied().unwrap_or(verifier);
                    self.change_object(state, ino, fragment, verifier);
                }
            }),
        }
    }

    /// The file was written to, past the storage nodes.
    pub fn written(&self, ino: Ino) {
        self.lock_and(|state| {
            for fragment in self.layout.fragments_of(ino) {
                let verifier = state.verifiers.get(&fragment).copied().unwrap_or(0);
                self.change_object(state, ino, fragment, verifier);
            }
        });
    }

    fn change_object(&self, state: &mut State, ino: Ino, fragment: FragmentIndex, verifier: u64) {
        if state.verifiers.get(&fragment).is_some_and(|now| *now != verifier) {
            // It was answered by a life that is over, and lost with it.
            tracing::warn!(%ino, %fragment, "a write was answered by a storage node that has lost it since");
            state.lost(fragment, [ino], false);
            self.fail(state, ino, Errno::IO);
            state.doubts.files.push(ino);
            return self.forget(false);
        }
        if state.objects.len() >= UNCONFIRMED_MAX && !state.objects.contains_key(&(ino, fragment)) {
            state.objects.clear();
            state.overflown = true;
        }
        state.changes += 1;
        state.objects.insert((ino, fragment), state.changes);
    }

    fn change_metadata(&self, state: &mut State, verifier: u64) {
        if state.verifiers.get(&self.home).is_some_and(|now| *now != verifier) {
            state.lost(self.home, [NAMES], false);
            self.fail(state, NAMES, Errno::IO);
            return self.forget(true);
        }
        state.changes += 1;
        state.metadata = Some(state.changes);
    }

    fn remember(&self, note: impl FnOnce(&dyn Memory)) {
        if let Some(memory) = self.memory.get() {
            note(&**memory);
        }
    }

    fn lock_and(&self, action: impl FnOnce(&mut State)) {
        action(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds what is unconfirmed")
    }
}
