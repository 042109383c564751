//! Whether the job is writing to the flash at this moment: then no new file is copied, for a bounded time.
//!
//! The kernel counts what every block device writes. The drainer writes little to the flash, so what is written there
//! is the job's, or what the kernel still owes it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often to look at the device.
const PERIOD: Duration = Duration::from_millis(25);

/// Written in one period by a burst: 20 MiB a second, which our own ledger never reaches.
const SECTORS: u64 = 1024;

/// Writes under way at once in a burst, where the device is so slow that none of them ends in a period.
const IN_FLIGHT: u64 = 8;

/// As long as a burst is given way to. After that the drain has as long for itself, whatever the job does.
const GIVES_WAY: Duration = Duration::from_secs(10);

/// What the drainer knows of the job's bursts; by default nothing, so that it never gives way.
#[derive(Default)]
pub(crate) struct Burst {
    /// Where the kernel tells of the device; `None`: nowhere, or the job cannot be told from ourselves.
    device: Option<PathBuf>,
    is_on: AtomicBool,
    /// How many reasons there are to give way to nobody.
    hurry: AtomicUsize,
}

impl Burst {
    /// Of the device that the folder `from` is on, unless `to` is there too.
    pub(crate) fn of(from: &Path, to: &Path) -> Burst {
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
        let found = device(from).filter(|here| device(to) != Some(*here)).map(|here| {
            let (major, minor) = (rustix::fs::major(here), rustix::fs::minor(here));
            PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
        });
        Burst { device: found.filter(|device| disk::exists(device).unwrap_or(false)), ..Burst::default() }
    }

    /// Watches the device, for ever; `released` wakes those that waited for the end of a burst.
    pub(crate) fn watch(&self, released: impl Fn()) {
        let Some(device) = &self.device else { return };
        let (mut gate, mut last) = (Gate::default(), None);
        loop {
            std::thread::sleep(PERIOD);
            let Some((sectors, in_flight)) = counters(device) else { continue };
            let written = sectors.saturating_sub(last.replace(sectors).unwrap_or(sectors));
            let holds = gate.holds(written >= SECTORS || in_flight >= IN_FLIGHT, Instant::now());
            if self.is_on.swap(holds, Ordering::Relaxed) && !holds {
                released();
            }
        }
    }

    /// Whether new files wait.
    pub(crate) fn holds(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && self.hurry.load(Ordering::Relaxed) == 0
    }

    /// Gives way to nobody from now on.
    pub(crate) fn ignore(&self) {
        self.hurry.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives way to nobody as long as the result lives: somebody waits for the drain.
    pub(crate) fn hurry(&self) -> Hurry<'_> {
        self.hurry.fetch_add(1, Ordering::Relaxed);
        Hurry(self)
    }
}

/// See [`Burst::hurry`].
pub(crate) struct Hurry<'a>(&'a Burst);

impl Drop for Hurry<'_> {
    fn drop(&mut self) {
        self.0.hurry.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sectors written so far, and writes under way (the kernel's Documentation/block/stat.rst).
fn counters(device: &Path) -> Option<(u64, u64)> {
    let number = |file: &str, index: usize| {
        std::fs::read_to_string(device.join(file)).ok()?.split_whitespace().nth(index)?.parse().ok()
    };
    Some((number("stat", 6)?, number("inflight", 1)?))
}

/// Gives way to a burst, but not for ever.
#[derive(Default)]
struct Gate {
    since: Option<Instant>,
    open_until: Option<Instant>,
}

impl Gate {
    fn holds(&mut self, burst: bool, now: Instant) -> bool {
        if !burst || self.open_until.is_some_and(|until| now < until) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        if now - since < GIVES_WAY {
            return true;
        }
        (self.since, self.open_until) = (None, Some(now + GIVES_WAY));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_without_end_holds_the_drain_half_of_the_time() {
        let (start, mut gate) = (Instant::now(), Gate::default());
        let held = (0..600).filter(|tenth| gate.holds(true, start + Duration::from_millis(tenth * 100)));
        assert_eq!(held.count(), 300);
    }

    #[test]
    fn between_bursts_nothing_is_held_and_each_has_its_whole_time() {
        let (start, mut gate) = (Instant::now(), Gate::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(gate.holds(true, at(0)) && gate.holds(true, at(9)));
        assert!(!gate.holds(false, at(9)));
        assert!(gate.holds(true, at(12)) && gate.holds(true, at(21)));
        assert!(!gate.holds(true, at(22)));
    }
}
