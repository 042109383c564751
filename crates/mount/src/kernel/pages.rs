//! Which files the kernel keeps pages of.
//!
//! What nobody else changes may be read through the kernel's page cache: with its read-ahead, and from memory when it is read
//! again. A write that goes past the cache drops the pages below it only before it begins, so that a reader at the same
//! moment could bring old bytes back.
//!
//! **Invariant:** the handles that are open on a file go all through the cache, or all past it. Pages that were there when
//! one went past it are never used again.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, StatxFlags};

/// How many files that nobody has open keep their pages: a few MiB of numbers.
const KEPT_MAX: usize = 1 << 18;

/// Files that are open, but not passed through, and those whose pages are true.
#[derive(Debug, Default)]
pub struct Pages {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: HashMap<u64, Handles>,
    kept: HashSet<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Handles {
    cached: bool,
    count: u32,
}

/// How a handle goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Every read and write comes to us.
    Past,
    /// Through the kernel's pages; `keep` those that are there.
    Through { keep: bool },
}

impl Pages {
    /// Counts one more handle on `ino`. The first that is open says for all which way they go: through the cache if it
    /// only reads and that is `allowed`.
    pub fn open(&self, ino: u64, write: bool, allowed: bool) -> Way {
        let State { open, kept } = &mut *self.lock();
        let handles = open.entry(ino).or_insert(Handles { cached: allowed && !write, count: 0 });
        handles.count += 1;
        if !handles.cached {
            kept.remove(&ino);
            return Way::Past;
        }
        if kept.len() == KEPT_MAX {
            kept.clear();
        }
        let known = !kept.insert(ino);
        Way::Through { keep: known || handles.count > 1 }
    }

    /// Whether handles that are open on `ino` go through the cache.
    pub fn are_used(&self, ino: u64) -> bool {
        self.lock().open.get(&ino).is_some_and(|handles| handles.cached)
    }

    /// Takes over `count` handles from a former process.
    pub fn adopt(&self, ino: u64, cached: bool, count: u32) {
        self.lock().open.insert(ino, Handles { cached, count });
    }

    /// Counts one handle less.
    pub fn close(&self, ino: u64) {
        let mut state = self.lock();
        if let Some(handles) = state.open.get_mut(&ino) {
            handles.count -= 1;
            if handles.count == 0 {
                state.open.remove(&ino);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the open files")
    }
}

/// Lets the kernel read so far ahead in the file system that is mounted there; FUSE begins with 128 KiB. Takes root.
pub fn read_ahead(mountpoint: &Path, bytes: u32) {
    let set = || {
        // The kernel knows the device: who serves the mount must not ask itself.
        let flags = AtFlags::STATX_DONT_SYNC;
        let mounted = rustix::fs::statx(rustix::fs::CWD, mountpoint, flags, StatxFlags::empty())?;
        let device = format!("{}:{}", mounted.stx_dev_major, mounted.stx_dev_minor);
        std::fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), (bytes >> 10).to_string())
    };
    if let Err(error) = set() {
        tracing::info!(%error, "the kernel reads ahead as far as it does by default");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Way = Way::Through { keep: false };
    const KNOWN: Way = Way::Through { keep: true };

    #[test]
    fn the_first_handle_decides_for_all_until_none_is_open() {
        let pages = Pages::default();
        assert_eq!(pages.open(1, false, true), NEW);
        assert_eq!(pages.open(1, true, true), KNOWN, "a writer joins readers in the cache");
        assert_eq!(pages.open(2, true, true), Way::Past);
        assert_eq!(pages.open(2, false, true), Way::Past, "a reader joins a writer");
        pages.close(2);
        assert_eq!(pages.open(2, false, true), Way::Past);
        (0..2).for_each(|_| pages.close(2));
        assert_eq!(pages.open(2, false, true), NEW);
    }

    #[test]
    fn pages_are_kept_until_somebody_goes_past_them() {
        let pages = Pages::default();
        let visit = |write, allowed| {
            let way = pages.open(1, write, allowed);
            pages.close(1);
            way
        };
        assert_eq!([visit(false, true), visit(false, true)], [NEW, KNOWN]);
        assert_eq!([visit(true, true), visit(false, true)], [Way::Past, NEW]);
        assert_eq!([visit(false, false), visit(false, true)], [Way::Past, NEW]);
    }

    #[test]
    fn what_a_former_process_opened_counts() {
        let pages = Pages::default();
        pages.adopt(1, true, 1);
        assert_eq!(pages.open(1, true, true), KNOWN);
        pages.adopt(2, false, 1);
        assert_eq!(pages.open(2, false, true), Way::Past);
    }
}
