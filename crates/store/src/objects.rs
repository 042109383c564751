//! Objects: one sparse file per inode and fragment, with that fragment's stripes packed densely.
//!
//! ```text
//! ROOT/ab/00000000000012ab        the object of inode 0x12ab; the folder is the number's low byte
//! ```
//!
//! An object that was never written does not exist and reads as empty. Open objects are kept in a bounded cache.
//! Whether an object is what it was when it came to rest is [`crate::integrity`]'s to say.
//!
//! **Invariant:** every change of an object is announced to its guard ([`crate::integrity::guard`]) before it begins,
//! and made on the mirror, too, where there is one ([`crate::mirror`]).

mod admitted;
mod answers;
mod changing;
mod destroyed;
mod doubted;
mod handed;
pub mod metadata;
mod mirrored;
mod object;
pub mod open_objects;
mod opening;
mod repairs;
mod resting;
mod sealing;
pub mod space;
mod sync_errors;
mod syncing;
mod syncs;
mod taken;
mod whole_sync;

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use model::Ino;
use rustix::fs::{FallocateFlags, Timestamps};
use rustix::io::Errno;
use wire::data::message::AllocateMode;
use wire::data::{Request, Time};

use self::admitted::Counted;
use self::object::Object;
use self::open_objects::OpenObjects;
use self::resting::Listing;
use self::space::Space;
use self::syncing::Syncs;
use crate::extents::{Extents, blocks_inside, blocks_touched};
use crate::integrity::guard::Change;
use crate::integrity::keeper::Keeper;
use crate::integrity::log::Place;
use crate::integrity::other::OtherCopy;
use crate::integrity::report::Fault;
use crate::measure::{Measure, measure, next_data};
use crate::mirror::Mirror;
use crate::verifier::Verifier;

/// The objects of one namespace on one fragment.
#[derive(Debug)]
pub struct Objects {
    root: PathBuf,
    space: Arc<Space>,
    counted: Counted,
    open: open_objects::Shared,
    syncs: Arc<Syncs>,
    /// Their checksums.
    keeper: Keeper,
    /// Where they are kept once more.
    mirror: Option<Arc<Mirror>>,
    /// What is damaged is repaired from there.
    other: Option<Arc<dyn OtherCopy>>,
    listing: Mutex<Option<Listing>>,
}

impl Objects {
    /// Opens the objects below `root`, a folder that must be there, and counts what they hold. Their checksums are at
    /// `seals`.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn open(
        root: PathBuf,
        seals: Place,
        space: Arc<Space>,
        verifier: Arc<Verifier>,
    ) -> io::Result<Objects> {
        if !std::fs::metadata(&root)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let syncs = Arc::new(Syncs::new(&root, !space.counts(), verifier)?);
        let keeper = Keeper::open(seals, || resting::list(&root))?;
        let objects = Objects {
            root,
            space,
            counted: Counted::default(),
            open: OpenObjects::new(),
            syncs,
            keeper,
            mirror: None,
            other: None,
            listing: Mutex::default(),
        };
        if objects.space.counts() {
            objects.count_all()?;
        }
        Ok(objects)
    }

    /// What they have room in.
    pub fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The commit verifier of their fragment.
    pub fn verifier(&self) -> u64 {
        self.syncs.verifier()
    }

    /// Reads up to `buffer.len()` bytes, whether or not there is doubt about them; fewer at the object's end.
    ///
    /// # Errors
    /// EIO where they are not what was sealed.
    pub fn read_unjudged(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let end = offset.saturating_add(buffer.len() as u64);
        self.repaired(ino, &blocks_touched(offset..end), || self.read_here(ino, offset, buffer))
    }

    fn read_here(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(object) = self.existing(ino)? else { return self.absent(ino).map(|()| 0) };
        let end = offset.saturating_add(buffer.len() as u64);
        let expected = object.guard.expected(&object.file, offset..end)?;
        let mut done = 0;
        while done < buffer.len() {
            match object.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    return Err(Fault::unreadable(offset + done as u64, &error).error(ino));
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(expected) = expected {
            if done < buffer.len() || offset + done as u64 > expected.length() {
                object.guard.whole(&object.file)?;
            }
            object.guard.verify(&object.file, &expected, offset, &mut buffer[..done])?;
        }
        Ok(done)
    }

    /// Writes all of `bytes`, and tells when.
    ///
    /// # Errors
    /// ENOSPC when they do not fit the capacity: then nothing was written. EIO where what they leave of the object is
    /// not what was sealed.
    pub fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> io::Result<Time> {
        let end = end_of(offset, bytes.len() as u64)?;
        let change = Change::Write(offset..end);
        let _held = self.hold_judged(ino, offset..end)?;
        let admitted = self.admit(ino, blocks_touched(offset..end))?;
        let object = self.repaired(ino, &NO_MORE, || self.make(ino, &change))?;
        let _changing = self.change(&object, &change, admitted)?;
        let _writing = object.pending.writing();
        self.on_both(ino, (&Request::Write { ino, offset }, bytes), || {
            object.file.write_all_at(bytes, offset)?;
            Ok(measure(&object.file)?.mtime)
        })
    }

    /// Allocates or frees a range.
    pub fn allocate(&self, ino: Ino, offset: u64, len: u64, mode: AllocateMode) -> io::Result<Time> {
        let end = end_of(offset, len)?;
        let change = match mode {
            AllocateMode::Grow => Change::Grow(end),
            AllocateMode::KeepSize => Change::Space,
            AllocateMode::PunchHole | AllocateMode::Zero => Change::Write(offset..end),
        };
        let _held = self.hold_judged(ino, offset..end)?;
        let takes = if mode == AllocateMode::PunchHole { 0..0 } else { blocks_touched(offset..end) };
        let admitted = self.admit(ino, takes)?;
        let object = self.repaired(ino, &NO_MORE, || self.make(ino, &change))?;
        let _changing = self.change(&object, &change, admitted)?;
        let flags = match mode {
            AllocateMode::Grow => FallocateFlags::empty(),
            AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
            AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateMode::Zero => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        let _writing = object.pending.writing();
        self.on_both(ino, (&Request::Allocate { ino, offset, len, mode }, &[]), || {
            rustix::fs::fallocate(&object.file, flags, offset, len)?;
            if mode == AllocateMode::PunchHole {
                self.refund(&object, blocks_inside(offset..end));
            }
            Ok(measure(&object.file)?.mtime)
        })
    }

    /// Its length, space and times; `None` where there is no object. One that is lost or cut off is as long as it was:
    /// its file can be looked at, and be removed.
    pub fn measure(&self, ino: Ino) -> io::Result<Option<Measure>> {
        let Some(object) = self.existing(ino)? else { return Ok(self.keeper.measure_absent(ino)) };
        let found = measure(&object.file)?;
        Ok(Some(Measure { size: object.guard.length(&object.file)?, ..found }))
    }

    /// Sets its times, where there is an object.
    pub fn set_times(&self, ino: Ino, atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
        let Some(object) = self.existing(ino)? else { return Ok(()) };
        let spec = |time: Option<Time>| match time {
            Some(time) => rustix::fs::Timespec { tv_sec: time.seconds, tv_nsec: i64::from(time.nanos) },
            None => rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        };
        rustix::fs::futimens(
            &object.file,
            &Timestamps { last_access: spec(atime), last_modification: spec(mtime) },
        )?;
        Ok(())
    }

    /// The next range with data at or after `offset`, as far as is known. What had some when it was sealed counts as
    /// data, wherever that is now: whoever reads it is told that it is lost.
    pub fn next_data_unjudged(&self, ino: Ino, offset: u64) -> io::Result<Option<Range<u64>>> {
        self.repaired(ino, &NO_MORE, || self.next_data_here(ino, offset))
    }

    fn next_data_here(&self, ino: Ino, offset: u64) -> io::Result<Option<Range<u64>>> {
        let Some(object) = self.existing(ino)? else { return self.absent(ino).map(|()| None) };
        object.guard.whole(&object.file)?;
        let found = next_data(&object.file, offset)?;
        let until = found.as_ref().map_or(u64::MAX, |found| found.start);
        let lost = object.guard.lost_data(&object.file, offset..until)?;
        Ok(lost.or(found))
    }

    /// Removes the object, if there is one.
    pub fn destroy(&self, ino: Ino) -> io::Result<()> {
        let _held = self.hold(ino, 0..u64::MAX);
        self.on_both(ino, (&Request::Destroy { ino }, &[]), || self.destroy_here(ino))
    }

    fn destroy_here(&self, ino: Ino) -> io::Result<()> {
        let object = self.existing(ino)?;
        // Whoever is sealing it now gives up.
        let is_removed = |is| object.iter().for_each(|object| object.guard.lock().removed = is);
        is_removed(true);
        // First: a seal that outlives the object would say that it is lost.
        self.keeper.forget(ino).inspect_err(|_| is_removed(false))?;
        // From here on nobody puts back one that was gone; somebody may have until now.
        let Some(object) = object.map_or_else(|| self.existing(ino), |object| Ok(Some(object)))? else {
            // Somebody may have removed it below us.
            self.count(ino, &Extents::default(), 0);
            return Ok(());
        };
        let mut open = self.opened();
        // Somebody may have removed it below us.
        disk::remove_file(&self.path(ino))?;
        open.remove(ino);
        drop(open);
        self.syncs.errors().forget(ino);
        self.refund(&object, 0..u64::MAX);
        Ok(())
    }

    /// Where an object is.
    pub fn path(&self, ino: Ino) -> PathBuf {
        self.root.join(format!("{:02x}/{ino:016x}", ino.to_le_bytes()[0]))
    }

    fn opened(&self) -> MutexGuard<'_, OpenObjects> {
        self.open.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds this lock";

/// Of an object whose bytes are not needed beyond what is found damaged.
const NO_MORE: Range<u64> = 0..0;

fn end_of(offset: u64, len: u64) -> io::Result<u64> {
    offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| Errno::FBIG.into())
}

#[cfg(test)]
mod tests;
