//! Confirming what no program does: what was written is synced when it is as old as the pages that a kernel writes back
//! by itself, so that a power loss takes what is younger or being written, and the home knows of whom it takes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Ino;
use wire::data::message::LossRequest;
use wire::data::{Reply, Request};

use super::commits::Moment;
use super::{Client, Operations, Result};

/// How old: Linux's `dirty_expire_centisecs`.
const AGE: Duration = Duration::from_secs(30);

/// So many files are synced at once.
const BATCH: usize = 64;

impl Client {
    /// Syncs what is old, every second, and tells the home when all is confirmed; from a thread that ends with the
    /// client.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn confirm_with_age(self: &Arc<Client>) {
        let mut moments = VecDeque::new();
        self.every_second("aging", move |client| {
            // A node that is away is asked again.
            let _later = client.confirm_what_is_old(&mut moments);
        });
    }

    fn confirm_what_is_old(&self, moments: &mut VecDeque<(Instant, Moment)>) -> Result<()> {
        let (commits, now) = (self.nodes.commits(), Instant::now());
        moments.push_back((now, commits.moment()));
        let is_old = |(then, _): &(Instant, Moment)| now.duration_since(*then) >= AGE;
        let mut old = None;
        while moments.front().is_some_and(is_old) {
            old = moments.pop_front();
        }
        let Some((_, old)) = old else { return Ok(()) };
        let (inos, names) = commits.aged(old);
        // One that cannot be confirmed now keeps nobody else's from being.
        let confirmed = inos.chunks(BATCH).map(|inos| self.confirm(inos)).fold(Ok(()), Result::and);
        if names && inos.is_empty() {
            self.sync_names()?;
        }
        confirmed?;
        self.say_confirmed(old)
    }

    /// Like a program's fsync, but nobody is told: the home knows what a disk has lost of them, and the node still
    /// reports it to the next program that syncs the file. Should the node be started again before, it has forgotten
    /// that, and has another verifier: so such a file stays unconfirmed, and is tried again when it is as old again.
    fn confirm(&self, inos: &[Ino]) -> Result<()> {
        let commits = self.nodes.commits();
        let moment = commits.moment();
        let lost: Vec<Ino> = self.flush(inos)?.into_iter().map(|lost| lost.ino).collect();
        self.ask(self.home, &Request::SyncMetadata, &[])?;
        let (lost, safe): (Vec<Ino>, Vec<Ino>) = inos.iter().partition(|ino| lost.contains(ino));
        commits.confirmed(&safe, moment);
        commits.not_confirmed(&lost, moment);
        Ok(())
    }

    /// Where nothing was changed since then. Twice, as nothing may have been written in between.
    fn say_confirmed(&self, old: Moment) -> Result<()> {
        let commits = self.nodes.commits();
        let Some(changes) = commits.all_confirmed(old) else { return Ok(()) };
        let say = |again| self.ask(self.home, &Request::Losses(LossRequest::Confirmed { again }), &[]);
        if say(false)? == Reply::Truth(true)
            && commits.all_confirmed(old) == Some(changes)
            && say(true)? == Reply::Truth(true)
        {
            commits.told_confirmed(changes);
        }
        Ok(())
    }
}
