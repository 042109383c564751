//! The thread that ships a home's log to the node with its copy.

use std::io;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use wire::data::PAYLOAD_BYTES_MAX;
use wire::data::hello::HelloError;

use super::{Second, Shard};
use crate::link::{Found, Link};
use crate::shard::log::Extent;

/// How long changes wait for company before they are shipped.
const GATHER: Duration = Duration::from_millis(5);

/// How long an idle thread rests before it looks whether it is still needed.
const REST: Duration = Duration::from_secs(5);

/// Nothing is said of a node that is back, or has its part of a new instance, within this time.
const QUIET: Duration = Duration::from_secs(1);

/// How soon another copy is begun after one was lost: at first, and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The same where the other node's disk was full: each that is begun takes the room that others need.
const FULL_PAUSE_MIN: Duration = Duration::from_secs(5);
const FULL_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Starts it, if the shard has a second copy.
pub fn start(shard: &Arc<Shard>) {
    let Some(second) = shard.second.clone() else { return };
    let shard = Arc::downgrade(shard);
    std::thread::Builder::new()
        .name("second-copy".into())
        .spawn(move || run(&shard, &second))
        .expect("the system has a thread for each namespace");
}

fn run(shard: &Weak<Shard>, second: &Second) {
    second.growth.follow();
    let (mut pause, mut lost) = (PAUSE_MIN, None);
    while !second.is_closed() && shard.strong_count() > 0 {
        let mut shipment = Shipment { shard, second, generation: None, sent: 0, synced: 0, told: 0 };
        let Err(error) = shipment.run() else { return };
        if shipment.synced > 0 {
            (pause, lost) = (PAUSE_MIN, None);
        }
        let (least, most) =
            if is_full(&error) { (FULL_PAUSE_MIN, FULL_PAUSE_MAX) } else { (PAUSE_MIN, PAUSE_MAX) };
        let error = &error as &dyn std::error::Error;
        let why = error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"));
        second.lost(why);
        let (since, told) = lost.get_or_insert_with(|| (Instant::now(), false));
        if since.elapsed() > QUIET && !std::mem::replace(told, true) {
            let (path, node) = (second.path(), second.place.node());
            tracing::warn!(
                path = %path.display(),
                ?node,
                error,
                "the second copy of the metadata log is not kept; it is tried again"
            );
        }
        // Whoever waits for a sync wakes this thread: that must not make it spin.
        pause = pause.clamp(least, most);
        second.rest(pause);
        pause *= 2;
    }
}

/// Whether the other node has no room for the copy.
fn is_full(error: &HelloError) -> bool {
    matches!(error, HelloError::Io(error) if disk::is_full(error))
}

/// One connection's work.
struct Shipment<'a> {
    shard: &'a Weak<Shard>,
    second: &'a Second,
    /// Which file is copied: of a log that was replaced, another copy is begun.
    generation: Option<u64>,
    /// Bytes of it that are there, and entries that were synced there.
    sent: u64,
    synced: u64,
    /// The other node knows that the log was synced up to this entry.
    told: u64,
}

impl Shipment<'_> {
    /// Ships until there is nothing to be shipped for any more, or an error ends it.
    fn run(&mut self) -> Result<(), HelloError> {
        let mut link = self.second.place.reach_patiently()?;
        self.second.compare(link.find()?)?;
        loop {
            let Some(extent) = self.extent() else { return Ok(()) };
            if self.is_behind(&extent) {
                self.ship(&mut link, &extent)?;
                // Not woken by each change, but by a sync.
                std::thread::park_timeout(GATHER);
            } else if !self.rest(&mut link)? {
                return Ok(());
            }
        }
    }

    /// Waits until the log has grown. Returns whether there is a log.
    fn rest(&self, link: &mut Link) -> Result<bool, HelloError> {
        self.second.growth.wait();
        let Some(extent) = self.extent() else { return Ok(false) };
        if self.is_behind(&extent) {
            return Ok(true);
        }
        std::thread::park_timeout(REST);
        match self.extent() {
            None => return Ok(false),
            // What is said of the copy must be true also where nobody changes anything.
            Some(extent) if !self.is_behind(&extent) => self.look_at_copy(link)?,
            Some(_) if self.synced >= self.second.wanted() => std::thread::park_timeout(GATHER),
            Some(_) => {}
        }
        Ok(true)
    }

    /// The other node still has the copy.
    fn look_at_copy(&self, link: &mut Link) -> io::Result<()> {
        let Found { length, .. } = link.find()?;
        if length < self.sent {
            self.second.is_cut();
            return Err(io::Error::other(format!("the copy has {length} of {} bytes", self.sent)));
        }
        Ok(())
    }

    fn extent(&self) -> Option<Extent> {
        let shard = self.shard.upgrade()?;
        let is_open = !self.second.is_closed();
        is_open.then(|| shard.lock().log.extent())
    }

    fn is_behind(&self, log: &Extent) -> bool {
        self.generation != Some(log.generation)
            || self.sent < log.length
            || self.told < log.confirmed
            || self.synced < self.second.wanted()
    }

    fn ship(&mut self, link: &mut Link, log: &Extent) -> io::Result<()> {
        let is_new = self.generation != Some(log.generation);
        if is_new {
            link.begin()?;
            (self.generation, self.sent) = (Some(log.generation), 0);
            self.second.shipped(log.generation, 0);
        }
        while self.sent < log.length || self.told < log.confirmed {
            let len = (log.length - self.sent).min(PAYLOAD_BYTES_MAX as u64);
            let bytes = log.file.read_at(self.sent, usize::try_from(len).unwrap_or(PAYLOAD_BYTES_MAX))?;
            if bytes.len() as u64 != len {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            link.append(self.sent, log.confirmed, &bytes)?;
            self.sent += len;
            self.told = log.confirmed;
            self.second.shipped(log.generation, self.sent);
        }
        if is_new || self.synced < self.second.wanted() {
            link.sync(self.sent)?;
            self.synced = log.next;
            self.second.synced(log.next);
        }
        Ok(())
    }
}
