//! What no fsync had confirmed and was lost, until somebody was told; and what sessions left behind unconfirmed when
//! they ended. Requests about it are in [`asked`]; what becomes of what was left is [`left`]'s to see.
//!
//! ```text
//! a client tells of a loss, or a fragment has another verifier than what was left there
//!     -> lost: stages refuse the file, other clients hear of it
//!   a program was told by an fsync, or an operator takes the file as it is -> told: it may be staged out
//!   the file is cut off to nothing, or removed                             -> forgotten
//! a session ends with unconfirmed writes -> left -> the home has the fragments sync them -> forgotten
//! ```
//!
//! **Invariant:** what is known here is in the log. Memory is bounded: what does not fit counts for every file.

mod asked;
mod away;
mod given_up;
pub(super) mod left;
mod parts;
mod quiet;
#[cfg(test)]
mod tests;
mod touched;
mod waking;

use std::collections::{BTreeMap, BTreeSet};

use model::{FragmentIndex, Ino, SessionId};
use wire::data::Time;
use wire::data::message::EVERYTHING;

use super::record::losses::{INOS_MAX, LossRecord};
use super::record::{AttrChange, Record};

/// So many losses are told apart.
const LOST_MAX: usize = 1 << 16;

/// So many files that were left are told apart.
const LEFT_MAX: usize = 1 << 18;

/// Commit verifiers of fragments.
pub type Verifiers = BTreeMap<FragmentIndex, u64>;

/// What was lost, and what may be.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    lost: BTreeMap<(Ino, FragmentIndex), Lost>,
    left: BTreeMap<(FragmentIndex, u64), Left>,
    /// The files in `left`, all together.
    left_files: usize,
    /// The last number that was given to a loss.
    last: u64,
    /// Counts what is added to `left`.
    additions: u64,
    /// The commit verifiers under which each session that may hold something has written, as far as it has said what
    /// was lost before.
    begun: BTreeMap<SessionId, Verifiers>,
    /// What sessions that hold nothing yet have said: it is logged when they begin.
    pending: BTreeMap<SessionId, Verifiers>,
    /// Sessions that may have written something that no sync has confirmed.
    writing: BTreeSet<SessionId>,
    /// What they may have written.
    touched: touched::Touched,
    /// Those that have said that all is confirmed, once, and have opened, closed and changed nothing since.
    confirming: BTreeSet<SessionId>,
    /// Those that have said so twice, and have opened and changed nothing since: in the log, as this node may lose its
    /// power together with the client.
    quiet: BTreeSet<SessionId>,
    /// Those of whom a power loss could still take back that they are there and not quiet, and that were not answered
    /// yet.
    waking: waking::Waking,
    /// Those of whom no power loss can, as far as this node knows since it was started.
    awake: BTreeSet<SessionId>,
    /// Those that say what they lost; of others nobody knows.
    speaking: BTreeSet<SessionId>,
    /// Those that may have written while they were out of reach.
    given_up: given_up::GivenUp,
    /// The home's own verifier, as the log has it.
    own: Option<(FragmentIndex, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lost {
    number: u64,
    verifier: u64,
    time: Time,
    told: bool,
}

/// What ended sessions have written to a fragment under one verifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// To these files.
    pub inos: BTreeSet<Ino>,
    /// To others, too.
    pub any: bool,
    /// They have changed names or attributes.
    pub names: bool,
    addition: u64,
}

impl Losses {
    /// Follows the log. `followed`: the verifiers that others have, as it knows.
    pub fn apply(&mut self, record: &Record, followed: impl Fn() -> Verifiers) {
        match record {
            Record::Losses(record) => self.apply_own(record),
            Record::Destroyed { ino } => self.forget(*ino),
            Record::SetAttr { ino, change: AttrChange { size: Some(0), .. } } => self.forget(*ino),
            Record::Began { session } => {
                let all = || followed().into_iter().chain(self.own).collect();
                // One whose end could not be noted goes on with what it had written under.
                self.begun.entry(*session).or_insert_with(all);
            }
            Record::Followed { fragment, verifier } => self.begun.values_mut().for_each(|begun| {
                begun.entry(*fragment).or_insert(*verifier);
            }),
            Record::Ended { session } => {
                self.given_up.remove(*session);
                self.begun.remove(session);
                self.pending.remove(session);
                self.writing.remove(session);
                self.touched.end(*session);
                self.confirming.remove(session);
                self.quiet.remove(session);
                self.waking.remove(session);
                self.awake.remove(session);
                self.speaking.remove(session);
            }
            _ => {}
        }
    }

    fn apply_own(&mut self, record: &LossRecord) {
        match record {
            LossRecord::Lost { first, fragment, verifier, time, inos, told } => {
                for (number, ino) in (*first..).zip(inos) {
                    let lost = Lost { number, verifier: *verifier, time: *time, told: *told };
                    self.lose(*ino, *fragment, lost);
                }
                self.last = self.last.max((first + inos.len() as u64).saturating_sub(1));
            }
            LossRecord::Told { losses } => losses.iter().for_each(|of| {
                let lost = self.lost.get_mut(&(of.ino, of.fragment));
                lost.into_iter()
                    .filter(|lost| lost.verifier == of.verifier)
                    .for_each(|lost| lost.told = true);
            }),
            LossRecord::Left { fragment, verifier, inos, any, names } => {
                let left = self.leave((*fragment, *verifier), inos, *any);
                left.names |= names;
            }
            LossRecord::Safe { fragment, verifier } => {
                let safe = self.left.remove(&(*fragment, *verifier));
                self.left_files -= safe.map_or(0, |left| left.inos.len());
            }
            LossRecord::Serves { fragment, verifier } => self.own = Some((*fragment, *verifier)),
            LossRecord::Heard { session, fragment, verifier } => {
                if let Some(begun) = self.begun.get_mut(session) {
                    begun.insert(*fragment, *verifier);
                }
            }
            LossRecord::Quiet { session } => {
                self.given_up.remove(*session);
                self.writing.remove(session);
                self.touched.end(*session);
                self.quiet.insert(*session);
            }
            LossRecord::Busy { session } => drop(self.quiet.remove(session)),
        }
    }

    fn lose(&mut self, ino: Ino, fragment: FragmentIndex, lost: Lost) {
        if self.lost.len() >= LOST_MAX && !self.lost.contains_key(&(ino, fragment)) {
            self.lost.retain(|_, lost| !lost.told);
        }
        let has_room = self.lost.len() < LOST_MAX || self.lost.contains_key(&(ino, fragment));
        let ino = if has_room { ino } else { EVERYTHING };
        let known = self.lost.get(&(ino, fragment)).filter(|known| known.verifier == lost.verifier);
        // Whoever tells of it when somebody was told has lost something else, or has nobody who was.
        if known.is_none_or(|known| known.told) {
            self.lost.insert((ino, fragment), lost);
        }
    }

    fn leave(&mut self, key: (FragmentIndex, u64), inos: &[Ino], any: bool) -> &mut Left {
        self.additions += 1;
        let left = self.left.entry(key).or_default();
        left.addition = self.additions;
        left.any |= any;
        for ino in inos {
            if self.left_files >= LEFT_MAX {
                left.any = true;
                break;
            }
            self.left_files += usize::from(left.inos.insert(*ino));
        }
        left
    }

    fn forget(&mut self, ino: Ino) {
        let keys: Vec<_> = self
            .lost
            .range((ino, FragmentIndex(0))..=(ino, FragmentIndex(u32::MAX)))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            self.lost.remove(&key);
        }
        for left in self.left.values_mut() {
            self.left_files -= usize::from(left.inos.remove(&ino));
        }
    }

    /// What the session said before it began, for the log.
    pub fn begins(&mut self, session: SessionId) -> Vec<Record> {
        let pending = self.pending.remove(&session).into_iter().flatten();
        let heard = |(fragment, verifier)| LossRecord::Heard { session, fragment, verifier };
        pending.map(heard).map(Record::Losses).collect()
    }

    /// Whether the session has said that all is confirmed, and has opened and changed nothing since.
    pub fn is_confirming(&self, session: SessionId) -> bool {
        self.confirming.contains(&session)
    }

    /// The session has closed a file, and may have written to it before.
    pub fn closes(&mut self, session: SessionId) {
        self.confirming.remove(&session);
    }

    /// The session may go on with what it has open for writing, though the home does not know it any more.
    pub fn give_up(&mut self, session: SessionId) {
        self.given_up.add(session);
    }

    /// Whether that is so of it.
    pub fn was_given_up(&self, session: SessionId) -> bool {
        self.given_up.has(session)
    }

    /// Whether the session may have written something that no sync has confirmed.
    pub fn may_have_written(&self, session: SessionId) -> bool {
        self.writing.contains(&session) || self.was_given_up(session)
    }

    /// Nobody knows which of those that are not quiet have written.
    pub fn any_writes(&mut self) {
        self.writing = self.begun.keys().filter(|session| !self.quiet.contains(session)).copied().collect();
    }

    /// The records that make the same.
    pub fn snapshot(&self) -> impl Iterator<Item = Record> {
        let lost = self.lost.iter().map(|((ino, fragment), lost)| LossRecord::Lost {
            first: lost.number,
            fragment: *fragment,
            verifier: lost.verifier,
            time: lost.time,
            inos: vec![*ino],
            told: lost.told,
        });
        let left = self.left.iter().flat_map(|((fragment, verifier), left)| {
            let inos: Vec<Ino> = left.inos.iter().copied().collect();
            let chunks: Vec<Vec<Ino>> = match inos.is_empty() {
                true => vec![Vec::new()],
                false => inos.chunks(INOS_MAX).map(<[Ino]>::to_vec).collect(),
            };
            let (fragment, verifier, any, names) = (*fragment, *verifier, left.any, left.names);
            chunks.into_iter().map(move |inos| LossRecord::Left { fragment, verifier, inos, any, names })
        });
        let last = (self.last > 0).then(|| LossRecord::nothing(self.last));
        lost.chain(left).chain(last).map(Record::Losses)
    }

    /// The records that tell what sessions have heard, after those that they began with these verifiers.
    pub fn heard(&self, followed: &Verifiers) -> Vec<Record> {
        let begun = self.begun.iter().flat_map(|(session, begun)| begun.iter().map(move |of| (*session, of)));
        let other = begun.filter(|(_, (fragment, verifier))| {
            let now = followed.get(fragment).copied();
            now.or_else(|| self.own.filter(|own| own.0 == **fragment).map(|own| own.1)) != Some(**verifier)
        });
        let heard = other.map(|(session, (fragment, verifier))| LossRecord::Heard {
            session,
            fragment: *fragment,
            verifier: *verifier,
        });
        let quiet = self.quiet.iter().map(|session| LossRecord::Quiet { session: *session });
        heard.chain(quiet).map(Record::Losses).collect()
    }

    /// The home's own verifier, which is to be known before sessions begin.
    pub fn own(&self) -> Option<Record> {
        self.own.map(|(fragment, verifier)| Record::Losses(LossRecord::Serves { fragment, verifier }))
    }

    /// The number for the next loss: none that was given out before, also where a power loss took that back.
    fn next(&self, now: Time) -> u64 {
        (self.last + 1).max(u64::try_from(now.seconds).unwrap_or(0) << 20)
    }
}
