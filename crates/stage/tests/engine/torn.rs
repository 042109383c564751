//! A source that is written to while it is copied: whatever is done to hide it, what is staged is one version of it.

use std::fs::{self, File, FileTimes};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use model::phase::{Direction, StageKind, StageState};

use crate::support::Site;
use crate::support::faulty_pfs::{Event, FaultyPfs};
use crate::support::forest::bytes;

/// Sizes of a file that goes with others, of one that one worker copies, and of one that several do.
const SIZES: [usize; 3] = [100_000, 3 << 20, 20 << 20];

/// Changes a byte of each MiB of a file, so that a copy that is under way holds old and new ones, and puts the file's
/// time of change back.
fn tear(path: PathBuf) -> Event {
    Box::new(move || {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let before = file.metadata().unwrap();
        for offset in (0..before.len()).step_by(1 << 20) {
            let mut byte = [0];
            file.read_exact_at(&mut byte, offset).unwrap();
            file.write_all_at(&[!byte[0]], offset).unwrap();
        }
        file.set_times(FileTimes::new().set_modified(before.modified().unwrap())).unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), before.modified().unwrap());
    })
}

fn assert_same_file(a: &Path, b: &Path) {
    assert!(fs::read(a).unwrap() == fs::read(b).unwrap(), "{} holds another version", b.display());
}

#[test]
fn a_stage_in_of_a_file_whose_time_is_put_back_meanwhile_holds_one_version() {
    for size in SIZES {
        let site = Site::new();
        fs::create_dir(site.pfs("set")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(site.pfs("set").join(name), bytes(1, size)).unwrap();
        }
        let pfs = FaultyPfs::default();
        *pfs.shared.after_read.lock().unwrap() = Some(("a".into(), tear(site.pfs("set/a"))));
        let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
        let status = site.run_on(pfs.clone(), &spec);
        assert!(pfs.shared.after_read.lock().unwrap().is_none(), "nothing was torn");
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_same_file(&site.pfs("set/a"), &site.buffer("a"));
    }
}

#[test]
fn a_stage_out_of_a_file_whose_time_is_put_back_meanwhile_holds_one_version() {
    for size in SIZES {
        let site = Site::new();
        for name in ["a", "b", "c"] {
            fs::write(site.buffer(name), bytes(1, size)).unwrap();
        }
        *site.faults.after_read.lock().unwrap() = Some(("a".into(), tear(site.buffer("a"))));
        let status = site.stage_out(StageKind::Directory, "", "out");
        assert!(site.faults.after_read.lock().unwrap().is_none(), "nothing was torn");
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_same_file(&site.buffer("a"), &site.pfs("out/a"));
    }
}

#[test]
fn a_file_that_is_replaced_while_it_is_copied_is_staged_as_one_of_the_two() {
    for size in SIZES {
        let site = Site::new();
        for name in ["a", "b", "c"] {
            fs::write(site.buffer(name), bytes(1, size)).unwrap();
        }
        // As programs do that save under another name first; of the same size and age, as a copy of an archiver is.
        let (new, old) = (site.path().join("new"), site.buffer("a"));
        fs::write(&new, bytes(2, size)).unwrap();
        let replace = move || {
            let times = FileTimes::new().set_modified(fs::metadata(&old).unwrap().modified().unwrap());
            File::options().write(true).open(&new).unwrap().set_times(times).unwrap();
            fs::rename(&new, &old).unwrap();
        };
        *site.faults.after_read.lock().unwrap() = Some(("a".into(), Box::new(replace)));
        let status = site.stage_out(StageKind::Directory, "", "out");
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_same_file(&site.buffer("a"), &site.pfs("out/a"));
    }
}

#[test]
fn a_hard_link_that_is_replaced_while_the_other_is_copied_has_its_own_bytes() {
    for replaced in [0, 1] {
        let site = Site::new();
        fs::create_dir(site.pfs("set")).unwrap();
        fs::write(site.pfs("set/a"), bytes(1, SIZES[1])).unwrap();
        fs::hard_link(site.pfs("set/a"), site.pfs("set/b")).unwrap();
        // The one that is found first is copied, the other is made a link to it.
        let found = fs::read_dir(site.pfs("set")).unwrap();
        let names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
        let (new, old) = (site.path().join("new"), site.pfs("set").join(&names[replaced]));
        fs::write(&new, b"next\n").unwrap();
        let pfs = FaultyPfs::default();
        let replace: Event = Box::new(move || fs::rename(&new, &old).unwrap());
        *pfs.shared.after_read.lock().unwrap() = Some((names[0].clone(), replace));
        let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
        let status = site.run_on(pfs.clone(), &spec);
        assert!(pfs.shared.after_read.lock().unwrap().is_none(), "nothing was replaced");
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        for name in ["a", "b"] {
            assert_same_file(&site.pfs("set").join(name), &site.buffer(name));
        }
    }
}

/// Stages files out of a buffer whose clock ticks every 10 ms and is that far ahead; one is changed as it is read.
fn is_seen_by_a_clock(ahead_s: i64) {
    for size in SIZES {
        let site = Site::new();
        site.faults.tick_ns.store(10_000_000, Ordering::Relaxed);
        site.faults.clock_ahead_s.store(ahead_s, Ordering::Relaxed);
        for name in ["b", "c", "a"] {
            fs::write(site.buffer(name), bytes(1, size)).unwrap();
        }
        *site.faults.after_read.lock().unwrap() = Some(("a".into(), tear(site.buffer("a"))));
        let status = site.stage_out(StageKind::Directory, "", "out");
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_same_file(&site.buffer("a"), &site.pfs("out/a"));
    }
}

#[test]
fn a_change_within_the_tick_of_the_clock_in_which_the_stage_began_is_seen() {
    is_seen_by_a_clock(0);
}

#[test]
fn a_change_within_the_tick_of_a_clock_that_is_hours_ahead_or_behind_is_seen() {
    for hours in [-5, 5] {
        is_seen_by_a_clock(hours * 3600);
    }
}

#[test]
fn stores_into_a_page_that_was_dirty_before_are_seen() {
    for size in SIZES {
        let site = Site::new();
        fs::create_dir(site.pfs("set")).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(site.pfs("set").join(name), bytes(1, size)).unwrap();
        }
        let mapping = Mapping::of(&site.pfs("set/a"), size);
        // All its pages are writable and dirty now.
        mapping.store(1);
        let pfs = FaultyPfs::default();
        *pfs.shared.after_read.lock().unwrap() = Some(("a".into(), Box::new(move || mapping.store(2))));
        let spec = site.spec(Direction::In, StageKind::Directory, "set", "");
        let status = site.run_on(pfs.clone(), &spec);
        assert_eq!(status.state, StageState::Complete, "{status:?}");
        assert_same_file(&site.pfs("set/a"), &site.buffer("a"));
    }
}

/// A file mapped for writing, shared.
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: one thread has it at a time.
#[expect(unsafe_code, reason = "a mapping is what is tested")]
unsafe impl Send for Mapping {}

#[expect(unsafe_code, reason = "a mapping is what is tested")]
impl Mapping {
    fn of(path: &Path, length: usize) -> Mapping {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let (read_write, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: the kernel chooses where; the file is as long as the mapping.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, read_write, shared, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Mapping { start: start.cast(), length }
    }

    /// Stores into each page.
    fn store(&self, value: u8) {
        for offset in (0..self.length).step_by(4096) {
            // SAFETY: within the mapping.
            unsafe { self.start.add(offset).write_volatile(value) };
        }
    }
}

#[expect(unsafe_code, reason = "a mapping is what is tested")]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody else has it.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}
