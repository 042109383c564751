//! What clients tell the home shard of losses, and ask.

use model::stripe::Layout;
use model::{FragmentIndex, Ino, SessionId};
use rustix::io::Errno;
use wire::data::message::{EVERYTHING, FEATURES, LOSSES, LOSSES_MAX, Loss, LossRequest, LostOf, NAMES};
use wire::data::{Reply, Time};

use super::super::caller::Caller;
use super::super::record::Record;
use super::super::record::losses::{INOS_MAX, LossRecord, ToldOf};
use super::super::state::State;
use super::super::{Shard, now, tree};
use super::parts::OWN;
use super::{Losses, Lost};
use crate::errno::errno_of;

impl Shard {
    /// A symbolic link's text, or what this shard understands.
    pub(in super::super) fn read_link(&self, caller: Caller<'_>, ino: Ino) -> Result<Reply, Errno> {
        if ino == FEATURES {
            self.lock().losses.speaking.insert(caller.session);
            return Ok(Reply::Bytes(LOSSES.into()));
        }
        match &self.lock().tree.get(ino).ok_or(Errno::STALE)?.body {
            tree::Body::Symlink(target) => Ok(Reply::Bytes(target.to_vec())),
            _ => Err(Errno::INVAL),
        }
    }

    pub(in super::super) fn asked_of_losses(
        &self,
        caller: Caller<'_>,
        asked: LossRequest,
    ) -> Result<Reply, Errno> {
        // Whoever works for a user says nothing of files that may be others': it sees to its own.
        let is_user = caller.is_checked();
        match asked {
            LossRequest::Lost { fragment, verifier, inos, any } => {
                let mut state = self.lock();
                if !is_user {
                    // It went on without its memory, or has written too many.
                    let any = any && state.losses.may_have_written(caller.session);
                    let touched =
                        any.then(|| state.losses.touched.on(caller.session, fragment, &self.layout));
                    let touched = touched.flatten();
                    let (any, touched) = (any && touched.is_none(), touched.unwrap_or_default());
                    state.lose(fragment, verifier, &[&*inos, &*touched].concat(), any)?;
                }
                if inos.is_empty() {
                    state.hear(caller.session, fragment, verifier)?;
                }
                drop(state);
                if !is_user {
                    // Before the next fsync asks what was lost.
                    self.look_at_left_on(fragment, verifier)?;
                }
                if !is_user && (any || !inos.is_empty()) {
                    // It is said once.
                    self.sync_log().map_err(|error| errno_of(&error))?;
                }
            }
            LossRequest::Told { .. } | LossRequest::Left { .. } if is_user => return Err(Errno::PERM),
            LossRequest::Told { losses } => self.lock().tell(&losses)?,
            LossRequest::Left { fragment, verifier, inos, any: false, names } => {
                self.lock().leave((fragment, verifier), inos, false, names)?;
            }
            LossRequest::Left { fragment, verifier, names, .. } => {
                let place = (fragment, verifier);
                let is_known = self.lock().leave_touched(caller.session, &self.layout, place, names)?;
                // One sync for all: names come last.
                let is_synced = !names || self.sync_names();
                return Ok(Reply::Truth(is_known && is_synced));
            }
            LossRequest::Confirmed { again } => {
                return self.confirmed(caller, again).map(Reply::Truth);
            }
            LossRequest::List { after, of, look } => {
                let silent = if look { self.look_at_all(caller.session) } else { Vec::new() };
                let listed = self.lock().losses.list(after, of, LOSSES_MAX - silent.len(), now());
                return Ok(Reply::Losses(silent.into_iter().chain(listed).collect()));
            }
        }
        Ok(Reply::Done)
    }

    /// How many losses are known of which nobody was told.
    pub fn known_losses(&self) -> u64 {
        self.lock().losses.untold().len() as u64
    }

    /// As [`Shard::known_losses`], after a look for more; and one for each fragment of which a
    /// session has not said what it lost.
    pub fn untold_losses(&self) -> u64 {
        let silent = self.look_at_all(OWN);
        (self.lock().losses.untold().len() + silent.len()) as u64
    }

    /// Takes files that lost writes as they are. How many losses there were that nobody had been told.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn accept_losses(&self) -> Result<u64, Errno> {
        let silent = self.look_at_all(OWN);
        let untold = self.lock().losses.untold();
        if untold.is_empty() && silent.is_empty() {
            return Ok(0);
        }
        // To confirm something would decide against the copy of a log that may have lost its end.
        self.check_log().map_err(|(_, error)| errno_of(&error))?;
        let mut state = self.lock();
        state.tell(&untold)?;
        silent.iter().try_for_each(|loss| state.hush(loss.of.fragment, loss.of.verifier))?;
        drop(state);
        self.sync_log().map_err(|error| errno_of(&error))?;
        Ok((untold.len() + silent.len()) as u64)
    }
}

impl Losses {
    /// Losses with numbers above `after`, in order, `max` of them at most, then those of the file `of`, as far as all
    /// with smaller numbers are listed.
    pub(super) fn list(&self, after: u64, of: Option<Ino>, max: usize, now: Time) -> Vec<Loss> {
        // More than there are: this home lost its log's end since.
        let after = if after > self.last { 0 } else { after };
        let loss = |((ino, fragment), lost): (&(Ino, FragmentIndex), &Lost)| Loss {
            number: lost.number,
            of: LostOf { ino: *ino, fragment: *fragment, verifier: lost.verifier },
            age_ms: u64::try_from(millis(now) - millis(lost.time)).unwrap_or(0),
            seconds: lost.time.seconds,
            told: lost.told,
        };
        let mut new: Vec<Loss> = self.lost.iter().map(loss).filter(|loss| loss.number > after).collect();
        new.sort_by_key(|loss| loss.number);
        let end = new.get(max).map_or(u64::MAX, |unlisted| unlisted.number);
        new.truncate(max);
        let asked = of.into_iter().flat_map(|ino| {
            self.lost.range((ino, FragmentIndex(0))..=(ino, FragmentIndex(u32::MAX))).map(loss)
        });
        new.into_iter().chain(asked.filter(|loss| loss.number < end)).collect()
    }

    /// Those that nobody was told.
    pub(super) fn untold(&self) -> Vec<LostOf> {
        let untold = self.lost.iter().filter(|(_, lost)| !lost.told);
        let of = |((ino, fragment), lost): (&(Ino, FragmentIndex), &Lost)| LostOf {
            ino: *ino,
            fragment: *fragment,
            verifier: lost.verifier,
        };
        untold.map(of).collect()
    }
}

impl State {
    /// The fragment, which has this verifier now, has lost writes to these files, or any.
    pub(super) fn lose(
        &mut self,
        fragment: FragmentIndex,
        verifier: u64,
        inos: &[Ino],
        any: bool,
    ) -> Result<(), Errno> {
        let time = now();
        // One whose name is lost, too, is among what any may be.
        let is_here = |ino: &Ino| *ino == NAMES || self.tree.get(*ino).is_some();
        let mut lost: Vec<Ino> = inos.iter().copied().filter(is_here).collect();
        lost.extend(any.then_some(EVERYTHING));
        for inos in lost.chunks(INOS_MAX) {
            let (first, inos) = (self.losses.next(time), inos.to_vec());
            let lost = LossRecord::Lost { first, fragment, verifier, time, inos, told: false };
            self.record(None, Record::Losses(lost))?;
        }
        Ok(())
    }

    fn tell(&mut self, losses: &[LostOf]) -> Result<(), Errno> {
        for losses in losses.chunks(INOS_MAX) {
            let of = |of: &LostOf| ToldOf { ino: of.ino, fragment: of.fragment, verifier: of.verifier };
            let losses = losses.iter().map(of).collect();
            self.record(None, Record::Losses(LossRecord::Told { losses }))?;
        }
        Ok(())
    }

    fn leave(
        &mut self,
        (fragment, verifier): (FragmentIndex, u64),
        mut inos: Vec<Ino>,
        any: bool,
        names: bool,
    ) -> Result<(), Errno> {
        inos.retain(|ino| self.tree.get(*ino).is_some());
        inos.truncate(INOS_MAX);
        self.record(None, Record::Losses(LossRecord::Left { fragment, verifier, inos, any, names }))
    }

    /// The session has said what the fragment lost of it when it got this verifier.
    pub(super) fn hear(
        &mut self,
        session: SessionId,
        fragment: FragmentIndex,
        verifier: u64,
    ) -> Result<(), Errno> {
        match self.losses.begun.get(&session) {
            Some(begun) if begun.get(&fragment) == Some(&verifier) => Ok(()),
            Some(_) => self.record(None, Record::Losses(LossRecord::Heard { session, fragment, verifier })),
            None => {
                self.losses.pending.entry(session).or_default().insert(fragment, verifier);
                Ok(())
            }
        }
    }

    /// Nobody waits any more for what sessions say that the fragment lost of them when it got this verifier.
    fn hush(&mut self, fragment: FragmentIndex, verifier: u64) -> Result<(), Errno> {
        let sessions: Vec<SessionId> = self.losses.writing.iter().copied().collect();
        sessions.into_iter().try_for_each(|session| self.hear(session, fragment, verifier))
    }

    /// The home is this fragment, with this verifier.
    pub(in super::super) fn serve_as(&mut self, fragment: FragmentIndex, verifier: u64) {
        if self.losses.own != Some((fragment, verifier)) {
            // Where the log cannot take it the next start finds it out again.
            let _logged = self.record(None, Record::Losses(LossRecord::Serves { fragment, verifier }));
            self.losses.own = Some((fragment, verifier));
        }
    }

    /// The session ends without a word: what it wrote may be lost, where a fragment has another verifier than it had
    /// when the session began.
    pub(in super::super) fn leave_silently(
        &mut self,
        session: SessionId,
        layout: &Layout,
    ) -> Result<(), Errno> {
        let begun = self.losses.begun.get(&session).filter(|_| self.losses.writing.contains(&session));
        let mut begun = begun.cloned().unwrap_or_default().into_iter();
        begun.try_for_each(|place| self.leave_touched(session, layout, place, true).map(drop))
    }

    /// The session ends, or goes on without its memory: all that it may have written there, and names, may be
    /// unconfirmed. Whether it is known which files those are.
    fn leave_touched(
        &mut self,
        session: SessionId,
        layout: &Layout,
        place: (FragmentIndex, u64),
        names: bool,
    ) -> Result<bool, Errno> {
        if !self.losses.may_have_written(session) {
            return Ok(true);
        }
        let touched = self.losses.touched.on(session, place.0, layout);
        let any = touched.is_none();
        self.leave(place, touched.unwrap_or_default(), any, names)?;
        Ok(!any)
    }
}

fn millis(time: Time) -> i64 {
    time.seconds.saturating_mul(1000).saturating_add(i64::from(time.nanos / 1_000_000))
}
