//! What a drainer does at the rendezvous: says how it is, and answers requests.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::drain::Drain;
use crate::namesake::Own;
use crate::settings::value_name;
use crate::state::State;
use crate::status::{Answer, Status, Trouble, now_ms};
use crate::unstarted;

/// How often a drainer looks for requests, and says how it is.
const PERIOD: Duration = Duration::from_millis(500);

/// How often a drainer says that it is there, if nothing changes.
const HEARTBEAT_MS: u64 = 15_000;

/// As many troubles as a status lists.
const TROUBLES_MAX: usize = 100;

impl Drain {
    /// What the drainer says of itself.
    pub(crate) fn status(&self) -> Status {
        let (publisher, mut state) = (&self.copier.publisher, self.lock());
        let (worked, counts) = (publisher.worked(), state.table.counts(|size| publisher.work_of(size)));
        let bytes_per_s = state.rate.observe(Instant::now(), worked, counts.running == 0);
        let redone = state.table.paths().filter(|path| state.ledger.get(path).is_some()).count();
        let (troubles, failed_flash) = (state.disputed(), self.copier.flash.trouble());
        let unseen = state.unseen(&troubles);
        let done = state.ledger.len() - redone - troubles.len();
        Status {
            host: self.host.clone(),
            session: self.session.clone(),
            pid: std::process::id(),
            machine: self.machine.clone(),
            from: self.from.clone(),
            folder: self.top.identity(),
            to: self.to.clone(),
            enqueued: done + troubles.len() + counts.pending,
            dequeued: done + counts.running,
            done,
            failed: counts.failed + troubles.len() + unseen.len() + usize::from(failed_flash.is_some()),
            open: counts.open,
            bytes_left: counts.bytes,
            bytes_done: state.bytes_done,
            work_left: counts.work - state.rate.under_way(worked, counts.running_work),
            bytes_per_s,
            paused: self.pace().is_paused() && !self.leaves.load(Ordering::Relaxed),
            gives_way: self.burst.holds(),
            hurries: self.hurries.load(Ordering::Relaxed),
            deadline: self.deadline.end(),
            settled: self.settled_at_end.load(Ordering::Relaxed),
            ended: self.ended.load(Ordering::Relaxed),
            refused: false,
            removed: value_name(self.removed),
            updated_ms: now_ms(),
            troubles: {
                let worst = failed_flash.into_iter().chain(troubles).chain(unseen);
                worst.chain(state.table.troubles(TROUBLES_MAX)).take(TROUBLES_MAX).collect()
            },
        }
    }

    /// Says that it is there. Whoever hears that it has started may wait for it there at once.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let folder = self.rendezvous.folder().display();
        let own = Own::new(self.from.clone(), self.top.identity());
        let last = self.rendezvous.last_of(&self.host).with_context(|| format!("look in {folder}"))?;
        let is_in_the_way = |other: &Status| !(own.succeeds(other) || other.is_over());
        if let Some(other) = last.filter(is_in_the_way) {
            bail!("{}", unstarted::in_the_way(&other, &own));
        }
        self.complete_log();
        self.publish(&self.status()).with_context(|| format!("write the first status in {folder}"))?;
        unstarted::take_back(&self.rendezvous, &self.host, &own);
        Ok(())
    }

    /// Says that it has ended, and what it owes, of which it may not have been told.
    pub(crate) fn go(&self) {
        let unseen = self.scan(Path::new(""));
        {
            let mut state = self.lock();
            // What could not be looked at before is as it was: nothing has been decided since.
            let more = unseen.into_iter().filter(|trouble| !state.unseen.contains(trouble));
            let more: Vec<Trouble> = more.collect();
            state.unseen.extend(more);
        }
        let unlogged = self.settle_log().err().map(|error| self.unlogged(&error));
        self.lock().unseen.extend(unlogged);
        self.ended.store(true, Ordering::Relaxed);
        self.end_displaced();
        self.take_back();
        if let Err(error) = self.publish(&self.status()) {
            tracing::warn!("write the last status in {}: {error}", self.rendezvous.folder().display());
        }
    }

    /// Nothing is said after the last word.
    fn publish(&self, status: &Status) -> std::io::Result<()> {
        let _held = self.publishing.lock().expect("no thread panics with the lock");
        if status.ended || !self.ended.load(Ordering::Relaxed) {
            self.rendezvous.publish(status)
        } else {
            Ok(())
        }
    }

    /// Answers requests and says how it is, for ever.
    pub(crate) fn attend(&self) {
        let (mut answered, mut said): (HashSet<String>, Option<Status>) = (HashSet::new(), None);
        loop {
            self.say(&mut said);
            let asked = self.rendezvous.requests().unwrap_or_else(|error| {
                if error.kind() == ErrorKind::NotFound && self.copier.pfs.check().is_ok() {
                    self.end_without_rendezvous();
                }
                Vec::new()
            });
            answered.retain(|id| asked.contains(id));
            for id in asked {
                if !answered.contains(&id) && self.reply(&id) {
                    answered.insert(id);
                }
            }
            std::thread::sleep(PERIOD);
        }
    }

    /// Ends where its folder on the PFS was moved away or removed: nobody hears of it any more, and its logs are in
    /// that folder. Whoever starts it again makes the folder anew, and copies what is missing there.
    fn end_without_rendezvous(&self) {
        let folder = self.rendezvous.folder().display();
        tracing::error!("{folder} was moved away or removed: the drainer ends");
        self.leave();
        std::process::exit(1);
    }

    /// Ends where another's word stands in the place of its own: one of both only would be heard and waited for.
    fn end_displaced(&self) {
        let Ok(Some(other)) = self.rendezvous.last_of(&self.host) else { return };
        if unstarted::is_of_this_process(&other) {
            return;
        }
        let own = Own::new(self.from.clone(), self.top.identity());
        let why = unstarted::in_the_way(&other, &own);
        tracing::error!("{why}: the drainer ends");
        self.leave();
        if let Err(error) = unstarted::give_way(&self.rendezvous, self.status(), why) {
            tracing::error!("note that in {}: {error}", self.rendezvous.folder().display());
        }
        std::process::exit(1);
    }

    /// Whoever tried to start this drain anew while it stood still has said that it could not start.
    fn take_back(&self) {
        let own = Own::new(self.from.clone(), self.top.identity());
        unstarted::take_back_own(&self.rendezvous, &self.host, &own);
    }

    fn reply(&self, id: &str) -> bool {
        self.end_displaced();
        self.take_back();
        let rendezvous = &self.rendezvous;
        // A drainer that was started again has perhaps answered before.
        if rendezvous.answers(id).is_ok_and(|answers| answers.iter().any(|answer| answer.host == self.host)) {
            return true;
        }
        let answer = self.settle_saying();
        match rendezvous.answer(id, &answer) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => {
                tracing::warn!("write the answer to {id}: {error}");
                false
            }
        }
    }

    /// Settles, and goes on saying how it is meanwhile.
    fn settle_saying(&self) -> Answer {
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| self.settle());
            let mut said = None;
            while !settling.is_finished() {
                self.say(&mut said);
                std::thread::sleep(PERIOD / 10);
            }
            let answer = settling.join().expect("settling does not panic");
            // Whoever reads the answer looks at the counters then.
            self.say(&mut said);
            answer
        })
    }

    /// Decides about all that the job has left; the last of its nodes to do so writes the receipt.
    pub(crate) fn settle_at_end(&self) -> Answer {
        self.end_displaced();
        let answer = self.settle();
        self.settled_at_end.store(true, Ordering::Relaxed);
        let accounted = self.publish(&self.status()).and_then(|()| {
            let all = self.rendezvous.statuses()?.iter().all(|status| status.settled || status.refused);
            let own = std::slice::from_ref(&answer);
            if all { self.rendezvous.write_receipt(own).map(drop) } else { Ok(()) }
        });
        if let Err(error) = accounted {
            tracing::warn!("write the receipt in {}: {error}", self.rendezvous.folder().display());
        }
        answer
    }

    fn say(&self, said: &mut Option<Status>) {
        let now = self.status();
        let same = said.as_ref().is_some_and(|said| {
            let (updated_ms, bytes_per_s, work_left) = (said.updated_ms, said.bytes_per_s, said.work_left);
            Status { updated_ms, bytes_per_s, work_left, ..now.clone() } == *said
                && now.updated_ms < said.updated_ms + HEARTBEAT_MS
        });
        if same {
            return;
        }
        self.end_displaced();
        if let Ok(()) = self.publish(&now) {
            *said = Some(now);
        }
        self.take_back();
    }
}

impl State {
    /// What counts as landed and is not on the PFS as it was drained, as far as that was looked at. What is pending
    /// counts as that.
    fn disputed(&self) -> Vec<Trouble> {
        let counts = |trouble: &&Trouble| {
            let path = Path::new(&trouble.path);
            self.ledger.get(path).is_some() && !self.table.is_pending(path)
        };
        self.disputed.iter().filter(counts).cloned().collect()
    }

    /// What could not be looked at, but for what counts as `disputed` or is pending.
    fn unseen(&self, disputed: &[Trouble]) -> Vec<Trouble> {
        let counts = |trouble: &&Trouble| {
            !disputed.contains(trouble) && !self.table.is_pending(Path::new(&trouble.path))
        };
        self.unseen.iter().filter(counts).cloned().collect()
    }
}
