//! The kernel's pages of open files: which handles go through them (cached), and what goes past them (direct).
//!
//! How the first handle of a file goes says [`client::Sharing::way`]; those that follow go as it does, until the last
//! is closed. Files that are passed through are never here.
//!
//! Nobody says when a file is mapped. A mapping always is the kernel's pages, also of a file whose handles go past
//! them; and O_DIRECT goes past them also where handles go through. [`beside`] keeps the two coherent.
//!
//! **Invariant:** the handles that are open on a file go all through the cache, or all past it. Pages that were there
//! when one went past it are never used again.

mod beside;
mod ranges;
mod tail;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use client::Way;
use model::Ino;
use rustix::fs::{AtFlags, StatxFlags};

use beside::Beside;
pub use beside::Step;
use ranges::Ranges;
pub use tail::{End, PAGE_BYTES};

/// How many files that nobody has open keep their pages: a few MiB of numbers.
const KEPT_MAX: usize = 1 << 18;

/// Files that are open, but not passed through, and those whose pages are true. `T` is a fill that waits.
#[derive(Debug)]
pub struct Pages<T> {
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    open: HashMap<Ino, Handles<T>>,
    kept: HashSet<Ino>,
    /// Numbers of changes. Of all files: a change is answered before it is over, and its file may be closed and opened
    /// anew in between.
    changes: u64,
}

#[derive(Debug)]
struct Handles<T> {
    cached: bool,
    count: u32,
    beside: Beside<T>,
}

/// How a handle goes that is not passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joined {
    /// Every read and write comes to us.
    Direct,
    /// Through the kernel's pages; `keep` those that are there.
    Cached { keep: bool },
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages { state: Mutex::new(State { open: HashMap::new(), kept: HashSet::new(), changes: 0 }) }
    }
}

impl<T> Pages<T> {
    /// Counts one more handle on `ino`. The first that is open says for all which way they go.
    pub fn open(&self, ino: Ino, way: Way) -> Joined {
        let State { open, kept, .. } = &mut *self.lock();
        let handles = open.entry(ino).or_insert_with(|| {
            let cached = way == Way::Cached;
            // The kernel drops what it has where it is not told to keep it.
            let filled = if cached && kept.contains(&ino) { Ranges::all() } else { Ranges::default() };
            Handles { cached, count: 0, beside: Beside::new(filled) }
        });
        handles.count += 1;
        if !handles.cached {
            kept.remove(&ino);
            return Joined::Direct;
        }
        if kept.len() == KEPT_MAX {
            kept.clear();
        }
        let known = !kept.insert(ino);
        Joined::Cached { keep: known || handles.count > 1 }
    }

    /// The pages of no file are true any more: those of the files that are returned, which are open, are to be dropped.
    pub fn forget(&self) -> Vec<Ino> {
        let mut state = self.lock();
        state.kept.clear();
        state.open.keys().copied().collect()
    }

    /// Whether handles are open on `ino`, which then is not passed through.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.lock().open.contains_key(&ino)
    }

    /// Takes over `count` handles from a former process, which filled nobody knows which pages.
    pub fn adopt(&self, ino: Ino, cached: bool, count: u32) {
        self.lock().open.insert(ino, Handles { cached, count, beside: Beside::new(Ranges::all()) });
    }

    /// Counts one handle less.
    pub fn close(&self, ino: Ino) {
        let mut state = self.lock();
        if let Some(handles) = state.open.get_mut(&ino) {
            handles.count -= 1;
            if handles.count == 0 {
                state.open.remove(&ino);
            }
        }
    }

    /// The kernel asks for pages: see [`Beside::fill`].
    pub fn fill(&self, ino: Ino, range: Range<u64>, fill: T) -> Option<T> {
        match self.lock().open.get_mut(&ino) {
            Some(handles) => handles.beside.fill(range, fill),
            None => Some(fill),
        }
    }

    /// The kernel got pages otherwise.
    pub fn filled(&self, ino: Ino, range: &Range<u64>) {
        if let Some(handles) = self.lock().open.get_mut(&ino) {
            handles.beside.filled(range);
        }
    }

    /// Where the file ends in a page that the kernel may have: see [`tail`].
    pub fn end(&self, ino: Ino) -> End {
        self.lock().open.get(&ino).map_or(End::Elsewhere, |handles| handles.beside.tail.end())
    }

    /// The kernel got a page with the file's end.
    pub fn ends_at(&self, ino: Ino, end: u64) {
        if let Some(handles) = self.lock().open.get_mut(&ino) {
            handles.beside.tail.ends_at(end);
        }
    }

    /// A truncation made a file longer that ended at `end`.
    pub fn grew_from(&self, ino: Ino, end: u64) {
        if let Some(handles) = self.lock().open.get_mut(&ino) {
            handles.beside.tail.grew_from(end);
        }
    }

    /// What is contents of `bytes`, which the kernel writes back to `offset`.
    pub fn contents<'a>(&self, ino: Ino, offset: u64, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let state = self.lock();
        let handles = state.open.get(&ino);
        handles.map_or(Cow::Borrowed(bytes), |handles| handles.beside.tail.contents(offset, bytes))
    }

    /// A change begins: see [`Beside::begin`]. Of a file that is passed through the kernel has no pages from us.
    pub fn begin(&self, ino: Ino, range: Range<u64>) -> (u64, Step) {
        let mut state = self.lock();
        state.changes += 1;
        let number = state.changes;
        let handles = state.open.get_mut(&ino);
        (number, handles.map_or(Step::Change, |handles| handles.beside.begin(number, range)))
    }

    /// The kernel has dropped pages: see [`Beside::dropped`].
    pub fn dropped(&self, ino: Ino, number: u64) -> Step {
        self.lock().open.get_mut(&ino).map_or(Step::Change, |handles| handles.beside.dropped(number))
    }

    /// A change is over: see [`Beside::over`].
    pub fn over(&self, ino: Ino, number: u64) -> Vec<T> {
        self.lock().open.get_mut(&ino).map_or_else(Vec::new, |handles| handles.beside.over(number))
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
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

    const NEW: Joined = Joined::Cached { keep: false };
    const KNOWN: Joined = Joined::Cached { keep: true };

    #[test]
    fn the_first_handle_decides_for_all_until_none_is_open() {
        let pages = Pages::<()>::default();
        assert_eq!(pages.open(Ino(1), Way::Cached), NEW);
        assert_eq!(pages.open(Ino(1), Way::Direct), KNOWN, "a writer joins readers in the cache");
        assert_eq!(pages.open(Ino(2), Way::Direct), Joined::Direct);
        assert_eq!(pages.open(Ino(2), Way::Cached), Joined::Direct, "a reader joins a writer");
        pages.close(Ino(2));
        assert_eq!(pages.open(Ino(2), Way::Cached), Joined::Direct);
        (0..2).for_each(|_| pages.close(Ino(2)));
        assert_eq!(pages.open(Ino(2), Way::Cached), NEW);
    }

    #[test]
    fn pages_are_kept_until_somebody_goes_past_them() {
        let pages = Pages::<()>::default();
        let visit = |way| {
            let joined = pages.open(Ino(1), way);
            pages.close(Ino(1));
            joined
        };
        assert_eq!([visit(Way::Cached), visit(Way::Cached)], [NEW, KNOWN]);
        assert_eq!([visit(Way::Direct), visit(Way::Cached)], [Joined::Direct, NEW]);
    }

    #[test]
    fn pages_that_may_be_there_are_dropped_before_a_write_that_goes_past_them() {
        let pages = Pages::<()>::default();
        let begin = |ino| pages.begin(ino, 0..4096).1;
        assert_eq!(
            (pages.open(Ino(1), Way::Cached), begin(Ino(1))),
            (NEW, Step::Change),
            "the kernel has none"
        );
        pages.close(Ino(1));
        assert_eq!((pages.open(Ino(1), Way::Cached), begin(Ino(1))), (KNOWN, Step::Drop), "it has kept them");
        pages.adopt(Ino(2), false, 1);
        assert_eq!(begin(Ino(2)), Step::Drop, "a former process may have filled some");
        assert_eq!(begin(Ino(3)), Step::Change, "it is passed through");
    }

    #[test]
    fn what_a_former_process_opened_counts() {
        let pages = Pages::<()>::default();
        pages.adopt(Ino(1), true, 1);
        assert_eq!(pages.open(Ino(1), Way::Direct), KNOWN);
        pages.adopt(Ino(2), false, 1);
        assert_eq!(pages.open(Ino(2), Way::Cached), Joined::Direct);
    }
}
