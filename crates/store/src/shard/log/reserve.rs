//! Room on the disk behind a log's end, so that what makes room can be noted on a full disk.
//!
//! The space is allocated and not written: it is the log's, and its length does not show it. What takes more space
//! stops before it, what only changes something before the second half of it, and what gives space back may use all of
//! it.
//!
//! **Invariant:** no entry that takes space is written into the reserve.

use std::io;

use rustix::io::Errno;

use super::super::record::Purpose;
use crate::log_folder::LogFile;

/// Bytes kept: some ten thousand names can be removed that hold no space themselves.
const RESERVE_BYTES: u64 = 4 << 20;

/// So much is allocated at once beyond it, bytes, where there is room.
const STEP_BYTES: u64 = 1 << 20;

/// How much of the reserve must be left behind an entry that is for this, bytes.
fn left_behind(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Takes => RESERVE_BYTES,
        Purpose::Changes => RESERVE_BYTES / 2,
        Purpose::Frees => 0,
    }
}

/// The room behind one log.
#[derive(Debug)]
pub struct Reserve {
    /// The file has its space up to here, bytes.
    until: u64,
}

impl Reserve {
    /// As a former process left it.
    pub fn of(file: &dyn LogFile) -> Reserve {
        // A log has no holes. Where that cannot be told, the first entry asks for all of it.
        Reserve { until: file.space().unwrap_or(0) }
    }

    /// Before an entry is written that ends at `end`: keeps the reserve behind it, if there is room.
    ///
    /// # Errors
    /// ENOSPC when the entry may not use the reserve.
    pub fn take(&mut self, file: &dyn LogFile, end: u64, purpose: Purpose) -> io::Result<()> {
        if end + RESERVE_BYTES <= self.until {
            return Ok(());
        }
        for more in [STEP_BYTES, 0] {
            let until = end + RESERVE_BYTES + more;
            match file.reserve(until) {
                Ok(()) => {
                    self.until = until;
                    return Ok(());
                }
                // It cannot allocate in advance: the write tells.
                Err(error) if !disk::is_full(&error) => return Ok(()),
                Err(_) => {}
            }
        }
        // What frees is tried also where there is no reserve: the write tells.
        let may_write = purpose == Purpose::Frees || end + left_behind(purpose) <= self.until;
        if may_write { Ok(()) } else { Err(Errno::NOSPC.into()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A file on a disk with so much room.
    #[derive(Debug)]
    struct Full(AtomicU64);

    impl LogFile for Full {
        fn len(&self) -> io::Result<u64> {
            Err(Errno::NOSYS.into())
        }

        fn read_at(&self, _: u64, _: usize) -> io::Result<Vec<u8>> {
            Err(Errno::NOSYS.into())
        }

        fn write_at(&self, _: u64, _: &[u8]) -> io::Result<()> {
            Err(Errno::NOSYS.into())
        }

        fn reserve(&self, until: u64) -> io::Result<()> {
            if until <= self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(Errno::NOSPC.into()) }
        }

        fn space(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn set_len(&self, _: u64) -> io::Result<()> {
            Err(Errno::NOSYS.into())
        }

        fn sync(&self) -> io::Result<()> {
            Err(Errno::NOSYS.into())
        }
    }

    #[test]
    fn on_a_full_disk_only_what_frees_uses_all_of_the_reserve() {
        let disk = Full(AtomicU64::new(10 << 20));
        let mut reserve = Reserve::of(&disk);
        let mut last = |purpose| {
            let fits = |end: &u64| reserve.take(&disk, *end << 10, purpose).is_ok();
            (1..=10 << 10).take_while(fits).last().unwrap() << 10
        };
        assert_eq!(last(Purpose::Takes), 6 << 20);
        assert_eq!(last(Purpose::Changes), 8 << 20);
        assert_eq!(last(Purpose::Frees), 10 << 20);
    }

    #[test]
    fn once_there_is_room_the_reserve_is_whole_again() {
        let disk = Full(AtomicU64::new(0));
        let mut reserve = Reserve::of(&disk);
        assert!(reserve.take(&disk, 100, Purpose::Takes).is_err());
        assert!(reserve.take(&disk, 100, Purpose::Frees).is_ok(), "the write is tried");
        disk.0.store(RESERVE_BYTES + 200, Ordering::Relaxed);
        assert!(reserve.take(&disk, 100, Purpose::Takes).is_ok());
    }
}
