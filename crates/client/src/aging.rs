//! Confirming what no program does: what was written is synced when it is as old as the pages that a kernel writes back
//! by itself, so that a power loss takes what is younger or being written, and the home knows of whom it takes nothing.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::Ino;
use wire::data::message::LossRequest;
use wire::data::{Reply, Request};

use super::commits::Moment;
use super::{Client, Result};

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
        let sync = |ino: &Ino| {
            let ino = *ino;
            self.layout.fragments_of(ino).map(move |at| (at, Request::Sync { ino }))
        };
        for inos in inos.chunks(BATCH) {
            self.sync_all(inos, inos.iter().flat_map(sync).collect())?;
        }
        if names && inos.is_empty() {
            self.sync_names()?;
        }
        self.say_confirmed(old)
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
