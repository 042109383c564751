//! What sessions left unconfirmed when they ended: the home has it synced, and sees where it was lost before.
//!
//! **Invariant:** it is given up only when all of it was synced and the fragment has the commit verifier still that it
//! had when it was written, or when it is noted as lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::stripe::Layout;
use model::{FragmentIndex, Ino, SessionId};
use rustix::io::Errno;
use wire::data::message::{EVERYTHING, LOSSES_MAX, Loss, LostOf, NAMES};

use super::super::record::Record;
use super::super::record::losses::LossRecord;
use super::super::state::State;
use super::super::{Shard, now};
use super::parts::{Parts, verifier};
use super::{Left, Verifiers};
use crate::errno::errno_of;

/// How often the home looks for what sessions left unconfirmed.
const PERIOD: Duration = Duration::from_secs(1);

/// Every so many looks the home reads the other fragments' commit verifiers, by which it judges sessions that end
/// without a word.
const LOOKS: u64 = 10;

/// How long sessions have to say what they lost, when a stage asks: they look every second.
const SAID_WITHIN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// So many files of sessions that are silent are told apart.
const SILENT_MAX: usize = LOSSES_MAX / 2;

impl State {
    /// What files may have lost, as a session that writes has not said what, while the fragments have these
    /// verifiers. `at_last`: whoever is connected, and does not speak of losses yet, never will.
    pub(super) fn silent(
        &self,
        who_asks: SessionId,
        layout: &Layout,
        present: &Verifiers,
        at_last: bool,
    ) -> Vec<Loss> {
        let mut silent = BTreeMap::new();
        for session in self.losses.writing.iter().filter(|session| **session != who_asks) {
            if at_last && self.sessions.is_connected(*session) && !self.losses.speaking.contains(session) {
                continue;
            }
            for (fragment, then) in self.losses.begun.get(session).into_iter().flatten() {
                if let Some(now) = present.get(fragment)
                    && now != then
                {
                    let inos = self.losses.touched.or_everything(*session, *fragment, layout);
                    silent.extend(inos.into_iter().map(|ino| ((ino, *fragment), *now)));
                }
            }
            if silent.len() > SILENT_MAX {
                silent =
                    silent.into_iter().map(|((_, fragment), now)| ((EVERYTHING, fragment), now)).collect();
            }
        }
        let of = |((ino, fragment), verifier)| LostOf { ino, fragment, verifier };
        let loss = |of| Loss { number: 0, of, age_ms: 0, seconds: now().seconds, told: false };
        silent.into_iter().map(|one| loss(of(one))).collect()
    }
}

impl Shard {
    /// Notes what was left where a fragment has another verifier than it had then.
    pub(super) fn look_at_left(&self) {
        let fragments: BTreeSet<FragmentIndex> =
            self.lock().losses.left.keys().map(|(fragment, _)| *fragment).collect();
        for fragment in fragments {
            if let Some(verifier) = verifier(&self.objects, &self.peers, fragment)
                && let Err(errno) = self.lose_left(fragment, verifier)
            {
                tracing::error!(%fragment, %errno, "cannot note what a storage node has lost");
            }
        }
    }

    /// As [`Shard::look_at_left`], and looks whether a fragment has lost something of which a session that writes has
    /// not said yet what; waits a moment for that, and for fragments that do not answer. What files may have lost then,
    /// for who asks.
    pub(super) fn look_at_all(&self, who_asks: SessionId) -> Vec<Loss> {
        self.look_at_left();
        let (begun, mut present) = (Instant::now(), Verifiers::new());
        loop {
            let missing = self.peers.all().filter(|fragment| !present.contains_key(fragment));
            let found = missing.filter_map(|one| Some((one, verifier(&self.objects, &self.peers, one)?)));
            present.extend(found.collect::<Verifiers>());
            let at_last = begun.elapsed() >= SAID_WITHIN;
            let silent = self.lock().silent(who_asks, &self.layout, &present, at_last);
            let is_known =
                silent.is_empty() && self.peers.all().all(|fragment| present.contains_key(&fragment));
            if is_known || at_last {
                return silent;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// As [`Shard::look_at_left`], where a client says that the fragment has this verifier: that may be old news, so
    /// the fragment is asked, if it answers.
    ///
    /// # Errors
    /// The errno of the log.
    pub(super) fn look_at_left_on(&self, fragment: FragmentIndex, said: u64) -> Result<(), Errno> {
        let is_other = |(of, then): &(FragmentIndex, u64)| *of == fragment && *then != said;
        if !self.lock().losses.left.keys().any(is_other) {
            return Ok(());
        }
        let now = verifier(&self.objects, &self.peers, fragment);
        self.lose_left(fragment, now.unwrap_or(said))
    }

    /// What was left on the fragment under other verifiers than this is lost.
    fn lose_left(&self, fragment: FragmentIndex, verifier: u64) -> Result<(), Errno> {
        let mut state = self.lock();
        let range = (fragment, 0)..=(fragment, u64::MAX);
        let left: Vec<(u64, Left)> = state
            .losses
            .left
            .range(range)
            .filter(|((_, then), _)| *then != verifier)
            .map(|((_, then), left)| (*then, left.clone()))
            .collect();
        for (then, Left { inos, any, names, .. }) in left {
            let names = names && self.peers.is_self(fragment);
            tracing::error!(
                node = ?self.peers.name(fragment),
                files = inos.len(),
                names,
                others = any,
                "the storage node lost unsynced writes of a mount that has ended, as a power loss does: stages refuse \
                 these files, with names=true or others=true all, until somebody accepts them as they are"
            );
            let inos: Vec<Ino> = inos.into_iter().chain(names.then_some(NAMES)).collect();
            if !self.peers.is_self(fragment) && (any || !inos.is_empty()) {
                state.doubt_files(if any { &[] } else { &inos })?;
            }
            state.lose(fragment, verifier, &inos, any)?;
            let safe = LossRecord::Safe { fragment, verifier: then };
            state.record(None, Record::Losses(safe))?;
        }
        Ok(())
    }

    /// Some of this node's own objects could not be written back.
    ///
    /// # Errors
    /// The errno of the log.
    pub fn lose_own(&self, inos: &[Ino]) -> Result<(), Errno> {
        self.lock().lose(self.peers.own(), self.objects.verifier(), inos, false)?;
        self.sync_log().map_err(|error| errno_of(&error))
    }

    /// Makes names survive, where nothing is wrong with the log: to confirm something would decide against its copy.
    pub(super) fn sync_names(&self) -> bool {
        self.check_log().is_ok() && self.sync_log().is_ok()
    }

    /// What was left on a fragment under this verifier was synced, but for these files.
    fn is_synced(
        &self,
        (fragment, verifier): (FragmentIndex, u64),
        synced: &Left,
        failed: &[Ino],
    ) -> Result<(), Errno> {
        let mut state = self.lock();
        state.lose(fragment, verifier, failed, false)?;
        // What was added meanwhile has another turn.
        if state.losses.left.get(&(fragment, verifier)).is_some_and(|left| left.addition == synced.addition) {
            state.record(None, Record::Losses(LossRecord::Safe { fragment, verifier }))?;
            drop(state);
            // Else a power loss brings back that it was left, under the verifier of then.
            self.sync_names();
        }
        Ok(())
    }
}

/// Sees to what is left, until the shard is closed.
pub(in super::super) fn start(shard: &Arc<Shard>) {
    let shard = Arc::downgrade(shard);
    std::thread::Builder::new()
        .name("left".into())
        .spawn(move || {
            let mut looks = 0..;
            while looks.next().and_then(|look| see_to(&shard, look % LOOKS == 0)).is_some() {}
        })
        .expect("the system has a thread for each namespace");
}

/// One look; `None` when the shard is gone.
fn see_to(shard: &Weak<Shard>, others: bool) -> Option<()> {
    std::thread::sleep(PERIOD);
    let strong = || shard.upgrade().filter(|shard| !shard.destroyer.is_closed());
    if others && !strong()?.lock().losses.begun.is_empty() {
        let peers = strong()?.peers.clone();
        peers.all().filter(|fragment| !peers.is_self(*fragment)).for_each(|fragment| peers.look(fragment));
    }
    strong()?.look_at_away();
    let left = strong()?.lock().losses.left.clone();
    if left.is_empty() {
        return Some(());
    }
    strong()?.look_at_left();
    let parts = Parts::of(&strong()?);
    // Not the shard meanwhile: a node that hangs must not keep its files open.
    for ((fragment, verifier), left) in left {
        if !parts.has((fragment, verifier)) {
            continue;
        }
        let inos: Vec<Ino> = left.inos.iter().copied().collect();
        let synced = if left.any { parts.sync_all(fragment) } else { parts.sync(fragment, &inos) };
        let Ok(failed) = synced else { continue };
        // Names are this home's, and there with its log.
        let names = !left.names || !parts.peers.is_self(fragment) || strong()?.sync_names();
        if names && parts.has((fragment, verifier)) {
            // Where the log cannot take it, it has another turn.
            let _logged = strong()?.is_synced((fragment, verifier), &left, &failed);
        }
    }
    Some(())
}
