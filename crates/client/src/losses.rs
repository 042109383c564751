//! What this client knows of losses beside its own, and what the home shard is to hear of those.
//!
//! The home keeps every loss until a program was told, whoever's it was: so stages know of it, and syncs of other
//! clients. Homes of before that do not take part; nothing is said to them.
//!
//! **Invariant:** a loss is to be told before it is forgotten that the write was not confirmed.

use std::collections::{BTreeMap, HashMap, VecDeque};

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
    /// What it is to be told, in order.
    news: VecDeque<LossRequest>,
    /// What each file lost: fragments, and their verifiers since.
    known: HashMap<Ino, BTreeMap<FragmentIndex, Known>>,
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
            self.know(LostOf { ino, fragment, verifier }, false);
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
    }

    /// Adds a file to the last loss that was noted, in front of what ends it. Whether that was possible.
    fn is_added(&mut self, fragment: FragmentIndex, verifier: u64, ino: Ino) -> bool {
        let place = |of: &LossRequest| match of {
            LossRequest::Lost { fragment, verifier, any: false, .. } => Some((*fragment, *verifier)),
            _ => None,
        };
        let mut backwards = self.news.iter_mut().rev();
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

    fn know(&mut self, of: LostOf, told: bool) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.entry(of.ino).or_default().insert(of.fragment, Known { verifier: of.verifier, told });
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

    /// What the home is to be told next.
    pub(crate) fn news(&self) -> Option<LossRequest> {
        self.news.front().filter(|_| self.takes_part == Some(true)).cloned()
    }

    /// It was told this, or does not want to hear it.
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
            _ => {}
        }
    }

    /// Whether the home takes part.
    pub(crate) fn is_heard(&self) -> bool {
        self.takes_part == Some(true)
    }

    /// All that the home is to be told.
    pub(crate) fn all_news(&self) -> Vec<LossRequest> {
        self.news.iter().cloned().collect()
    }

    /// What the home is asked for when the file is synced, if it takes part.
    pub(crate) fn question(&self, ino: Ino) -> Option<LossRequest> {
        let list = LossRequest::List { after: self.heard, of: Some(ino), look: false };
        (self.takes_part == Some(true)).then_some(list)
    }

    /// The home knows of this loss. Whether that is news; `is_owed`: who syncs the file next is told already that it
    /// lost something, though not what.
    pub(crate) fn hear(&mut self, loss: &Loss, is_owed: bool) -> bool {
        // A successor has what its predecessor was told.
        let is_first = self.heard == 0;
        let known = self.known.get(&loss.of.ino).and_then(|known| known.get(&loss.of.fragment));
        let same = known.filter(|known| known.verifier == loss.of.verifier);
        // One that programs here were told of, and now nobody was: another client has lost something else of it.
        let is_known = same.is_some_and(|known| !known.told || loss.told);
        self.know(loss.of, loss.told);
        loss.number > self.heard && !is_known && !(is_first && is_owed)
    }

    /// Losses up to this number were heard of.
    pub(crate) fn heard(&mut self, number: u64) {
        self.heard = self.heard.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of each loss that the home is told of now, in order.
    fn told(losses: &mut Losses) -> Vec<Vec<u64>> {
        let mut told = Vec::new();
        while let Some(news) = losses.news() {
            losses.delivered(&news);
            if let LossRequest::Lost { inos, .. } = news {
                told.push(inos.iter().map(|ino| ino.0).collect());
            }
        }
        told
    }

    #[test]
    fn what_comes_late_is_told_before_the_end_of_what_was_lost() {
        let (mut losses, fragment) = (Losses::default(), FragmentIndex(1));
        losses.understood(true);
        losses.lost(fragment, 7, &[Ino(1), Ino(2)], false);
        losses.lost(fragment, 7, &[Ino(3)], false);
        assert_eq!(told(&mut losses), [vec![1, 2, 3], vec![]]);
        losses.lost(fragment, 7, &[], false);
        losses.lost(fragment, 7, &[Ino(4)], false);
        losses.lost(fragment, 7, &[Ino(5)], false);
        assert_eq!(told(&mut losses), [vec![], vec![4, 5], vec![]], "an end has no names");
    }
}
