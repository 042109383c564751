//! What the home shard hears of losses and of what is left unconfirmed, and what it says of those of others.

use std::collections::BTreeMap;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::Request;
use wire::data::message::{EVERYTHING, LOSSES_MAX, Loss, LossRequest, NAMES};

use super::{Commits, Doubts, Moment, State};
use crate::failures::Failures;
use crate::losses::ELSEWHERE;

impl State {
    /// The home is to hear that the fragment has lost writes to these files, or any.
    pub(super) fn lost(&mut self, fragment: FragmentIndex, inos: impl IntoIterator<Item = Ino>, any: bool) {
        let verifier = self.verifiers.get(&fragment).copied().unwrap_or_default();
        let inos: Vec<Ino> = inos.into_iter().collect();
        self.told_home.lost(fragment, verifier, &inos, any);
    }
}

impl Commits {
    /// A life of connections to a fragment has begun, and it has this verifier. The home is to know under which this
    /// client writes where: a new life of the home has forgotten what was said by who had not written yet.
    pub(super) fn announce(&self, state: &mut State, fragment: FragmentIndex, verifier: u64, is_first: bool) {
        if is_first {
            return state.told_home.first_used(fragment, verifier, fragment == self.home);
        }
        if fragment == self.home {
            state.told_confirmed = None;
            // What it was told may not have been on disk.
            state.forgotten |= state.left_told;
            let others = state.verifiers.iter().filter(|(other, _)| **other != self.home);
            others.for_each(|(other, verifier)| state.told_home.first_used(*other, *verifier, false));
        }
    }

    /// That all changes are confirmed, and there were none since `old`, if the home was not told yet: so many there
    /// were.
    pub fn all_confirmed(&self, old: Moment) -> Option<u64> {
        let state = self.lock();
        let is_old = state.changes <= old.0 && !self.is_changing();
        let is_all = state.objects.is_empty() && state.handed.is_empty() && state.metadata.is_none();
        let is_news = state.told_home.is_heard() && state.told_confirmed != Some(state.changes);
        let answers = state.inherited.is_empty() || (state.left_told && !state.forgotten);
        let has_said_all = !state.overflown && answers && state.told_home.news().is_none();
        (is_old && is_all && is_news && has_said_all).then_some(state.changes)
    }

    /// The home was told that these are.
    pub fn told_confirmed(&self, changes: u64) {
        self.lock_and(|state| {
            state.told_confirmed = Some(changes);
            // That is on disk now, and with it what the home was told of a former process.
            if !state.forgotten {
                state.inherited.clear();
            }
        });
    }

    /// The files that were changed until `moment`, and not since, and that no sync has confirmed; whether names were.
    pub fn aged(&self, moment: Moment) -> (Vec<Ino>, bool) {
        let state = self.lock();
        let is_old = |(key, change): (&(Ino, FragmentIndex), &u64)| (*change <= moment.0).then_some(key.0);
        let mut inos: Vec<Ino> = state.objects.iter().filter_map(is_old).collect();
        inos.sort_unstable();
        inos.dedup();
        (inos, state.metadata.is_some_and(|change| change <= moment.0))
    }

    /// What the home shard is to doubt, if anything.
    pub fn doubts(&self) -> Option<Doubts> {
        let doubts = &self.lock().doubts;
        (*doubts != Doubts::default()).then(|| doubts.clone())
    }

    /// It was told these.
    pub fn doubted(&self, told: &Doubts) {
        self.lock_and(|state| {
            state.doubts.files.drain(..told.files.len());
            // There may have been another loss since.
            state.doubts.all = state.doubts.all.filter(|loss| Some(*loss) != told.all);
        });
    }

    /// The home takes part in what follows, or does not.
    pub fn understood(&self, takes_part: bool) {
        self.lock_and(|state| state.told_home.understood(takes_part));
    }

    /// This client goes on with the session of another, which may not have lived to tell what was lost.
    pub fn resume(&self) {
        self.lock_and(|state| {
            state.told_home.resume();
            let mut left: Vec<_> = state.verifiers.iter().collect();
            left.sort_by_key(|(fragment, _)| (**fragment == self.home, **fragment));
            for (fragment, verifier) in left {
                state.told_home.left(*fragment, *verifier, *fragment == self.home);
            }
            let untold = state.failures.iter().filter(|(_, failure)| failure.told.is_empty());
            let untold: Vec<Ino> = untold.map(|(ino, _)| ino).collect();
            if !untold.is_empty() {
                let any = untold.contains(&EVERYTHING);
                state.lost(self.home, untold.into_iter().filter(|ino| *ino != EVERYTHING), any);
            }
        });
    }

    /// What the home is to be told, or asked, next.
    pub fn news(&self) -> Option<LossRequest> {
        self.lock().told_home.news()
    }

    /// It was told this, or has said what it knows. `accepted`: of a [`LossRequest::Left`], it answers for that.
    pub fn delivered(&self, told: &LossRequest, accepted: bool) {
        self.lock_and(|state| {
            if let LossRequest::Left { fragment, .. } = told {
                state.left_told = true;
                state.declined |= !accepted;
                // It comes last, and the others are on disk with it.
                if *fragment == self.home && !state.declined && !state.forgotten {
                    state.inherited.clear();
                }
            }
            state.told_home.delivered(told);
        });
    }

    /// It does not want to hear this: it answers for nothing of it.
    pub fn refused(&self, told: &LossRequest) {
        self.lock_and(|state| state.told_home.delivered(told));
    }

    /// Whether the home takes part; nobody knows before it was connected.
    pub fn is_heard(&self) -> bool {
        self.lock().told_home.is_heard()
    }

    /// What the home is asked when the file is synced for a handle.
    pub fn question(&self, ino: Ino) -> Option<Request> {
        self.lock().told_home.question(Some(ino)).map(Request::Losses)
    }

    /// What the home knows, in answer to that. Whether there may be more.
    pub fn hear(&self, losses: &[Loss]) -> bool {
        let mut state = self.lock();
        let mut names = None;
        for loss in losses {
            // What others may have lost of any file concerns here who has something open, as lost names do.
            let of = if loss.of.ino == EVERYTHING { NAMES } else { loss.of.ino };
            let is_owed = state.failures.is_untold(of);
            let is_news = state.told_home.hear(loss);
            // What failed since is not forgotten for it.
            let stamp = Failures::stamp().saturating_sub(loss.age_ms.saturating_mul(1_000_000));
            let newer = state.failures.since(of).filter(|newer| *newer >= stamp);
            if is_news && !(loss.told && newer.is_some()) {
                tracing::warn!(
                    of = %loss.of.ino,
                    fragment = %loss.of.fragment,
                    told = loss.told,
                    age_ms = loss.age_ms,
                    "the home knows that a storage node has lost writes to a file, perhaps of another mount"
                );
                // Handles that were opened since hear of it only if nobody has.
                let noted = state.failures.failed(of, stamp, Errno::IO.raw_os_error());
                self.remember(|memory| memory.failed(noted, stamp, Errno::IO.raw_os_error()));
                names = Some(names.unwrap_or(false) || [EVERYTHING, NAMES].contains(&noted));
            }
            let is_told = loss.told && !state.told_home.is_untold(loss.of.ino);
            let is_told_elsewhere = is_told || (is_news && of == NAMES && !is_owed);
            if is_told_elsewhere && newer.is_none() && state.failures.is_untold(of) {
                state.failures.told(of, ELSEWHERE, of);
                self.remember(|memory| memory.told(of, ELSEWHERE));
            }
        }
        losses.iter().for_each(|loss| state.told_home.heard(loss.number));
        drop(state);
        names.into_iter().for_each(|names| self.forget(names));
        losses.len() >= LOSSES_MAX
    }

    /// For the home, when this client ends: what it was not told yet, and what no sync has confirmed.
    pub fn last_words(&self) -> Vec<LossRequest> {
        let state = self.lock();
        if state.told_home.is_deaf() {
            return Vec::new();
        }
        let mut left: BTreeMap<FragmentIndex, Vec<Ino>> = BTreeMap::new();
        for (ino, fragment) in state.objects.keys() {
            left.entry(*fragment).or_default().push(*ino);
        }
        if !state.handed.is_empty() {
            left.entry(self.home).or_default().extend(state.handed.files());
        }
        let any = |fragment: &FragmentIndex| state.overflown || state.inherited.contains(fragment);
        for fragment in state.verifiers.keys().filter(|fragment| any(fragment)) {
            left.entry(*fragment).or_default();
        }
        if state.metadata.is_some() {
            left.entry(self.home).or_default();
        }
        let mut words = state.told_home.all_news();
        for (fragment, inos) in left {
            let Some(verifier) = state.verifiers.get(&fragment).copied() else { continue };
            let (any, names) = (any(&fragment), fragment == self.home && state.metadata.is_some());
            let note =
                |inos: &[Ino]| LossRequest::Left { fragment, verifier, inos: inos.to_vec(), any, names };
            words.push(note(&inos[..inos.len().min(LOSSES_MAX)]));
            words.extend(inos.chunks(LOSSES_MAX).skip(1).map(note));
        }
        words
    }
}
