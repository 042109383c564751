//! Objects in doubt that somebody wants to use: they are judged first, before all others, and waited for.
//!
//! **Invariant:** nobody waits for a mirror that stays away longer than once, nor for one that comes and goes.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::Ino;
use rustix::io::Errno;

use super::{Mirror, POISON, SILENT_MAX, Way};

/// How often the way to the mirror may break while somebody waits.
const BREAKS_MAX: u64 = 3;

/// How soon who waits looks again, also where nobody wakes it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Objects that somebody waits for.
    first: BTreeSet<Ino>,
    /// It was told that nobody waits any more for a mirror that is away.
    pub told: bool,
}

impl Mirror {
    /// Whether all was judged that was in doubt at the start: what is in doubt still, only a person can decide.
    pub fn has_judged_all(&self) -> bool {
        self.all_judged.load(Ordering::Acquire)
    }

    /// Whether this fragment may be used: it is not older than its mirror, for all that is known.
    ///
    /// # Errors
    /// EIO.
    pub fn check_age(&self) -> io::Result<()> {
        if self.lock().older { Err(Errno::IO.into()) } else { Ok(()) }
    }

    /// Waits until an object in doubt was judged. One of a mirror that does not come is used as it is.
    pub fn wait_until_judged(&self, ino: Ino) {
        let mut progress = self.lock();
        let given_up = progress.epoch + 2 * BREAKS_MAX;
        progress.asked.first.insert(ino);
        while progress.asked.first.contains(&ino)
            && !progress.closed
            && !progress.older
            && !self.has_judged_all()
        {
            let pause = match progress.way {
                Way::Both => LOOK_AGAIN,
                Way::Alone => Duration::ZERO,
                // Changes wait for it as well, and whoever comes later does not.
                Way::Unknown => {
                    let since = *progress.waiting_since.get_or_insert_with(Instant::now);
                    SILENT_MAX.saturating_sub(since.elapsed())
                }
            };
            if pause.is_zero() || progress.epoch > given_up {
                progress.asked.first.remove(&ino);
                if !std::mem::replace(&mut progress.asked.told, true) {
                    self.tell_not_judged(ino, progress.trouble.clone());
                }
                return;
            }
            progress = self.changed.wait_timeout(progress, pause).expect(POISON).0;
        }
        progress.asked.first.remove(&ino);
    }

    fn tell_not_judged(&self, ino: Ino, why: Option<String>) {
        let (path, node) = (self.notes.path_of(""), self.place.node());
        let why = why.unwrap_or_else(|| "it does not answer in time".into());
        tracing::error!(
            %ino,
            path = %path.display(),
            ?node,
            why,
            "the node with the mirror of an object in doubt cannot be waited for: until it is back, this one and \
             others whose checksums were lost are used as they are, which may not be what was written"
        );
    }

    /// The next of these objects to be judged.
    pub(crate) fn next_to_judge(&self, left: &mut BTreeSet<Ino>) -> Option<Ino> {
        let mut progress = self.lock();
        let asked = progress.asked.first.iter().find(|ino| left.contains(ino)).copied();
        // What neither node has, and what was judged before, is waited for in vain.
        let before = progress.asked.first.len();
        progress.asked.first.retain(|ino| left.contains(ino));
        if progress.asked.first.len() < before {
            self.changed.notify_all();
        }
        drop(progress);
        let next = asked.or_else(|| left.first().copied())?;
        left.remove(&next);
        Some(next)
    }

    /// All of them were.
    pub(crate) fn judged_all(&self) {
        let mut progress = self.lock();
        self.all_judged.store(true, Ordering::Release);
        progress.asked.first.clear();
        self.changed.notify_all();
    }
}
