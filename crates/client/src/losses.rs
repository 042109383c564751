//! What this client knows of losses beside its own, and what the home shard is to hear of those.
//!
//! The home keeps every loss until a program was told, whoever's it was: so stages know of it, and syncs of other
//! clients. Homes of older releases do not take part, and clients tell them nothing.
//!
//! A disk that fails twice has one commit verifier, so losses are told apart by the numbers that the home gives them.
//! What a node says of its disk it tells the home by itself, too: that is looked up there, and told only where the home
//! has no such loss. Else each client that is told of one failure would make it one more for all others.
//!
//! **Invariant:** a loss is to be told before it is forgotten that the write was not confirmed. A handle counts as told
//! only when the home was asked for the number.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use model::{FragmentIndex, Ino};
use wire::data::message::{EVERYTHING, LOSSES_MAX, Loss, LossRequest, LostOf};

/// Who was told where another client says that somebody was: no handle has this number.
pub(crate) const ELSEWHERE: u64 = 1 << 62;

/// Files of which it is remembered what they lost.
const KNOWN_MAX: usize = 1 << 16;

/// What is between this client and the home shard.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Whether the home takes part; `None`: it was not asked yet.
    takes_part: Option<bool>,
    /// What it is to be told, and asked for the numbers of that, in order.
    news: VecDeque<LossRequest>,
    /// What each file lost: fragments, and their verifiers since.
    known: HashMap<Ino, BTreeMap<FragmentIndex, Known>>,
    /// What a node has said of its disk, and was not found at the home yet.
    by_disk: BTreeSet<LostOf>,
    /// The number of the last loss that was heard of.
    heard: u64,
    /// This client goes on with the session of another, and may not know which verifiers that knew.
    resumed: bool,
}

/// A loss.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// What the fragment has since.
    verifier: u64,
    /// The home knows that somebody was told.
    told: bool,
    /// What the home calls it, once that was heard.
    number: Option<u64>,
    /// The node has said so of its disk: it says each failure once.
    by_disk: bool,
}

impl Losses {
    /// The home takes part, or does not.
    pub(crate) fn understood(&mut self, takes_part: bool) {
        self.takes_part = Some(takes_part);
    }

    /// A fragment, which has this verifier now, has lost writes to these files, or any; perhaps none of this client.
    pub(crate) fn lost(&mut self, fragment: FragmentIndex, verifier: u64, inos: &[Ino], any: bool) {
        let everything = any.then_some(EVERYTHING);
        for ino in inos.iter().copied().chain(everything) {
            let known = Known { verifier, told: false, number: None, by_disk: false };
            self.know(LostOf { ino, fragment, verifier }, known);
        }
        // Late answers come one by one.
        if !any
            && let [ino] = inos
            && self.is_added(fragment, verifier, *ino)
        {
            return;
        }
        let lost = |inos: &[Ino], any| LossRequest::Lost { fragment, verifier, inos: inos.to_vec(), any };
        self.news.extend(inos.chunks(LOSSES_MAX).map(|inos| lost(inos, false)));
        // Last, and also where nothing was lost: after this the home knows that all was told.
        self.news.push_back(lost(&[], any));
        if any || !inos.is_empty() {
            self.look_up(inos.first().copied());
        }
    }

    /// A node has said that its disk could not write back something of the file.
    pub(crate) fn lost_by_disk(&mut self, of: LostOf) {
        let (number, by_disk) = self.same(&of).map_or((None, false), |known| (known.number, known.by_disk));
        self.know(of, Known { verifier: of.verifier, told: false, number, by_disk });
        self.by_disk.insert(of);
        self.look_up(Some(of.ino));
    }

    fn look_up(&mut self, of: Option<Ino>) {
        self.news.push_back(LossRequest::List { after: 0, of, look: false });
    }

    /// The home was asked what it knows of the file. What it does not know yet it is told.
    fn looked_up(&mut self, ino: Ino) {
        let missing: Vec<LostOf> = self.by_disk.iter().copied().filter(|of| of.ino == ino).collect();
        for of in missing {
            self.by_disk.remove(&of);
            self.lost(of.fragment, of.verifier, &[ino], false);
            let known = self.known.get_mut(&ino).and_then(|known| known.get_mut(&of.fragment));
            known.into_iter().for_each(|known| known.by_disk = true);
        }
    }

    /// Adds a file to the last loss that was noted, in front of what ends it. Whether that was possible.
    fn is_added(&mut self, fragment: FragmentIndex, verifier: u64, ino: Ino) -> bool {
        let place = |of: &LossRequest| match of {
            LossRequest::Lost { fragment, verifier, any: false, .. } => Some((*fragment, *verifier)),
            _ => None,
        };
        let is_said = |news: &&mut LossRequest| !matches!(news, LossRequest::List { .. });
        let mut backwards = self.news.iter_mut().rev().filter(is_said);
        let (Some(end), Some(last)) = (backwards.next(), backwards.next()) else { return false };
        if [&*end, &*last].map(place) != [Some((fragment, verifier)); 2] {
            return false;
        }
        let LossRequest::Lost { inos, .. } = last else { return false };
        let has_room = (1..LOSSES_MAX).contains(&inos.len());
        if has_room && !inos.contains(&ino) {
            inos.push(ino);
        }
        has_room
    }

    /// Whether the file lost something of which no program was told.
    pub(crate) fn is_untold(&self, ino: Ino) -> bool {
        self.known.get(&ino).is_some_and(|known| known.values().any(|known| !known.told))
    }

    /// This client goes on with the session of another.
    pub(crate) fn resume(&mut self) {
        self.resumed = true;
    }

    /// A predecessor may have left writes to any file unconfirmed on this fragment, and names.
    pub(crate) fn left(&mut self, fragment: FragmentIndex, verifier: u64, names: bool) {
        self.news.push_back(LossRequest::Left { fragment, verifier, inos: Vec::new(), any: true, names });
    }

    /// A fragment is used for the first time, and the home is to know what this client writes there under. What a
    /// predecessor had written that saw to, or this client does.
    pub(crate) fn first_used(&mut self, fragment: FragmentIndex, verifier: u64, is_home: bool) {
        if self.resumed || !is_home {
            self.lost(fragment, verifier, &[], false);
        }
    }

    fn know(&mut self, of: LostOf, known: Known) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.entry(of.ino).or_default().insert(of.fragment, known);
    }

    /// What is known under this verifier.
    fn same(&self, of: &LostOf) -> Option<Known> {
        let known = self.known.get(&of.ino)?.get(&of.fragment)?;
        (known.verifier == of.verifier).then_some(*known)
    }

    /// A program was told what the file lost. Of what any may have lost none is told for all: that stays known.
    pub(crate) fn told(&mut self, ino: Ino) {
        if ino == EVERYTHING {
            return;
        }
        let Some(known) = self.known.get_mut(&ino) else { return };
        let untold = known.iter_mut().filter(|(_, known)| !known.told);
        let tell = |(fragment, known): (&FragmentIndex, &mut Known)| {
            known.told = true;
            LostOf { ino, fragment: *fragment, verifier: known.verifier }
        };
        let losses: Vec<LostOf> = untold.map(tell).collect();
        if !losses.is_empty() {
            self.news.push_back(LossRequest::Told { losses });
        }
    }

    /// What the home is to be told, or asked, next.
    pub(crate) fn news(&self) -> Option<LossRequest> {
        match self.news.front()? {
            LossRequest::List { of, .. } => self.question(*of),
            news => (self.takes_part == Some(true)).then(|| news.clone()),
        }
    }

    /// It was told this, or does not want to hear it; or has said what it knows.
    pub(crate) fn delivered(&mut self, told: &LossRequest) {
        match (self.news.pop_front(), told) {
            // Others came to it meanwhile.
            (
                Some(LossRequest::Lost { fragment, verifier, inos, any }),
                LossRequest::Lost { inos: told, .. },
            ) if inos.len() > told.len() => {
                let inos = inos[told.len()..].to_vec();
                self.news.push_front(LossRequest::Lost { fragment, verifier, inos, any });
            }
            (Some(LossRequest::List { of: Some(ino), .. }), _) => self.looked_up(ino),
            _ => {}
        }
    }

    /// Whether the home takes part.
    pub(crate) fn is_heard(&self) -> bool {
        self.takes_part == Some(true)
    }

    /// Whether the home has heard of every loss, as far as it wants to, and has said their numbers.
    pub(crate) fn has_told_all(&self) -> bool {
        let is_loss = |news: &LossRequest| match news {
            LossRequest::Lost { inos, any, .. } => *any || !inos.is_empty(),
            LossRequest::List { .. } => true,
            _ => false,
        };
        self.takes_part.is_some_and(|takes_part| !takes_part || !self.news.iter().any(is_loss))
    }

    /// Whether the home is known to take no part.
    pub(crate) fn is_deaf(&self) -> bool {
        self.takes_part == Some(false)
    }

    /// All that the home is to be told, where nobody waits for an answer.
    pub(crate) fn all_news(&self) -> Vec<LossRequest> {
        let by_disk = self.by_disk.iter().map(|of| {
            let (fragment, verifier, inos) = (of.fragment, of.verifier, vec![of.ino]);
            LossRequest::Lost { fragment, verifier, inos, any: false }
        });
        let said = self.news.iter().filter(|news| !matches!(news, LossRequest::List { .. })).cloned();
        by_disk.chain(said).collect()
    }

    /// What the home is asked for when the file is synced, or one lost something, if it takes part.
    pub(crate) fn question(&self, of: Option<Ino>) -> Option<LossRequest> {
        let list = LossRequest::List { after: self.heard, of, look: false };
        (self.takes_part == Some(true)).then_some(list)
    }

    /// The home knows of this loss. Whether that is news.
    pub(crate) fn hear(&mut self, loss: &Loss) -> bool {
        let same = self.same(&loss.of);
        let is_numbered = same.is_some_and(|known| known.number == Some(loss.number));
        let was_by_disk = same.is_some_and(|known| known.by_disk);
        if is_numbered && was_by_disk && self.by_disk.contains(&loss.of) {
            // An earlier failure of the disk.
            return false;
        }
        let is_by_disk = self.by_disk.remove(&loss.of);
        // One that this client has told of, and no program was told.
        let is_own = same.is_some_and(|known| known.number.is_none() && !known.told);
        let is_known = is_by_disk || is_numbered || is_own;
        let by_disk = is_by_disk || (is_known && was_by_disk);
        let (verifier, told, number) = (loss.of.verifier, loss.told, Some(loss.number));
        self.know(loss.of, Known { verifier, told, number, by_disk });
        loss.number > self.heard && !is_known
    }

    /// Losses up to this number were heard of.
    pub(crate) fn heard(&mut self, number: u64) {
        self.heard = self.heard.max(number);
    }
}

#[cfg(test)]
mod tests;
