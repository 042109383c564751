//! Objects: one sparse file per inode and fragment, with that fragment's stripes packed densely.
//!
//! ```text
//! ROOT/ab/00000000000012ab        the object of inode 0x12ab; the folder is the number's low byte
//! ```
//!
//! An object that was never written does not exist and reads as empty. Open objects are kept in a bounded cache. Whether an
//! object is what it was when it came to rest is [`crate::integrity`]'s to say.
//!
//! **Invariant:** every change of an object is announced to its [`Guard`] before it begins.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{FallocateFlags, SeekFrom, Timestamps};
use rustix::io::Errno;
use wire::data::Time;
use wire::data::connection::is_shortage;
use wire::data::message::AllocateMode;

use super::extents::{Extents, blocks_inside, blocks_touched};
use super::open_objects::{self, OpenObjects};
use super::space::Space;
use super::syncing::{Pending, Syncable, Syncs};
use super::verifier::Verifier;
use crate::integrity::closed::is_closed;
use crate::integrity::guard::{Change, Guard};
use crate::integrity::keeper::Keeper;

/// So many objects with unsynced writes are synced at once to be closed: in the background, or while somebody waits for room.
const RETIRED_AT_ONCE: usize = 1024;
const SYNCED_FOR_ROOM: usize = 64;

/// An object up to this length is checked before it is handed out, bytes.
const CHECKED_AT_ONCE_BYTES_MAX: u64 = 64 << 10;

/// Objects in one answer that lists them.
const PAGE_OBJECTS_MAX: usize = 32_768;

/// What an object is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Length, bytes.
    pub size: u64,
    /// Space, in units of 512 bytes.
    pub blocks: u64,
    /// Last write.
    pub mtime: Time,
    /// Last change of any kind.
    pub ctime: Time,
}

/// The objects of one namespace on one fragment.
#[derive(Debug)]
pub struct Objects {
    root: PathBuf,
    space: Arc<Space>,
    open: open_objects::Shared,
    syncs: Arc<Syncs>,
    /// Their checksums.
    keeper: Keeper,
}

/// One object, open.
#[derive(Debug)]
pub struct Object {
    file: File,
    pending: Pending,
    /// Kept only where we count.
    extents: Mutex<Extents>,
    guard: Arc<Guard>,
}

impl Syncable for Object {
    fn file(&self) -> &File {
        &self.file
    }

    fn pending(&self) -> &Pending {
        &self.pending
    }
}

impl Objects {
    /// Opens the objects below `root`, a folder that must be there, and counts what they hold. Their checksums are in the file
    /// `seals`.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn open(
        root: PathBuf,
        seals: PathBuf,
        space: Arc<Space>,
        verifier: Arc<Verifier>,
    ) -> io::Result<Objects> {
        if !std::fs::metadata(&root)?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let syncs = Arc::new(Syncs::new(&root, !space.counts(), verifier)?);
        let keeper = Keeper::open(seals)?;
        let objects = Objects { root, space, open: OpenObjects::new(), syncs, keeper };
        if objects.space.counts() {
            for ino in objects.list()? {
                if let Some(object) = objects.existing(ino)? {
                    objects.space.take_existing(object.extents.lock().expect(POISON).blocks());
                }
            }
        }
        Ok(objects)
    }

    /// Reads up to `buffer.len()` bytes; fewer at the object's end.
    ///
    /// # Errors
    /// EIO where they are not what was sealed.
    pub fn read(&self, ino: u64, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(object) = self.existing(ino)? else { return self.absent(ino).map(|()| 0) };
        let end = offset.saturating_add(buffer.len() as u64);
        let expected = object.guard.expected(offset..end)?;
        let mut done = 0;
        while done < buffer.len() {
            match object.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if let Some(expected) = expected {
            if done < buffer.len() {
                object.guard.verify_end(&object.file, &expected, offset + done as u64)?;
            }
            object.guard.verify(&object.file, &expected, offset, &mut buffer[..done])?;
        }
        Ok(done)
    }

    /// Writes all of `bytes`, and tells when.
    ///
    /// # Errors
    /// ENOSPC when they do not fit the capacity: then nothing was written. EIO where what they leave of the object is not what
    /// was sealed.
    pub fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> io::Result<Time> {
        let end = end_of(offset, bytes.len() as u64)?;
        let change = Change::Write(offset..end);
        let object = self.make(ino, &change)?;
        let _changing = self.keeper.change(&object.guard, &object.file, &change)?;
        self.charge(&object, blocks_touched(offset..end))?;
        object.pending.begin_write();
        object.file.write_all_at(bytes, offset)?;
        Ok(measure(&object.file)?.mtime)
    }

    /// Sets the length.
    pub fn resize(&self, ino: u64, size: u64) -> io::Result<()> {
        let change = Change::Resize(size);
        let object = match self.existing(ino)? {
            Some(object) => object,
            None if size == 0 => return self.keeper.replace_absent(ino, &change),
            None => self.make(ino, &change)?,
        };
        let _changing = self.keeper.change(&object.guard, &object.file, &change)?;
        object.pending.begin_write();
        object.file.set_len(size)?;
        self.refund(&object, size.div_ceil(super::extents::BLOCK_BYTES)..u64::MAX);
        Ok(())
    }

    /// Allocates or frees a range.
    pub fn allocate(&self, ino: u64, offset: u64, len: u64, mode: AllocateMode) -> io::Result<Time> {
        let end = end_of(offset, len)?;
        let change = match mode {
            AllocateMode::Grow | AllocateMode::KeepSize => Change::Space,
            AllocateMode::PunchHole | AllocateMode::Zero => Change::Write(offset..end),
        };
        let object = self.make(ino, &change)?;
        let _changing = self.keeper.change(&object.guard, &object.file, &change)?;
        let flags = match mode {
            AllocateMode::Grow => FallocateFlags::empty(),
            AllocateMode::KeepSize => FallocateFlags::KEEP_SIZE,
            AllocateMode::PunchHole => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            AllocateMode::Zero => FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE,
        };
        if mode != AllocateMode::PunchHole {
            self.charge(&object, blocks_touched(offset..end))?;
        }
        object.pending.begin_write();
        rustix::fs::fallocate(&object.file, flags, offset, len)?;
        if mode == AllocateMode::PunchHole {
            self.refund(&object, blocks_inside(offset..end));
        }
        Ok(measure(&object.file)?.mtime)
    }

    /// Makes the object survive a power loss.
    ///
    /// # Errors
    /// The errno of a sync that failed, to each session once: whoever asks next must hear it, too.
    pub fn sync(&self, session: [u8; 16], ino: u64) -> io::Result<()> {
        self.sync_object(ino)?;
        self.syncs.errors().tell(ino, session)
    }

    /// Makes many objects survive a power loss: with one sync where they have a file system of their own.
    ///
    /// # Errors
    /// Something of one of them was lost, now or earlier: [`Objects::sync`] tells of which.
    pub fn sync_many(&self, session: [u8; 16], inos: &[u64]) -> io::Result<()> {
        let together = self.sync_whole();
        for ino in inos {
            if !together || self.is_suspect(*ino) {
                self.sync_object(*ino)?;
            }
            self.syncs.errors().owed(*ino, session)?;
        }
        Ok(())
    }

    fn sync_object(&self, ino: u64) -> io::Result<()> {
        if let Some(object) = self.existing(ino)? {
            self.syncs.object(ino, &*object, &self.path(ino));
        }
        Ok(())
    }

    fn suspect_all(&self) {
        self.opened().all().for_each(|object| object.pending.suspect());
    }

    fn is_suspect(&self, ino: u64) -> bool {
        let object = self.opened().get(ino).cloned();
        object.is_some_and(|object| object.pending.is_suspect())
    }

    /// Its length, space and times; `None` where there is no object. One that is lost or cut off is as long as it was: its
    /// file can be looked at, and be removed.
    pub fn measure(&self, ino: u64) -> io::Result<Option<Measure>> {
        let Some(object) = self.existing(ino)? else { return Ok(self.keeper.measure_absent(ino)) };
        let found = measure(&object.file)?;
        Ok(Some(Measure { size: object.guard.length_if_broken().unwrap_or(found.size), ..found }))
    }

    /// Sets its times, where there is an object.
    pub fn set_times(&self, ino: u64, atime: Option<Time>, mtime: Option<Time>) -> io::Result<()> {
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

    /// The next range with data at or after `offset`.
    pub fn next_data(&self, ino: u64, offset: u64) -> io::Result<Option<Range<u64>>> {
        match self.existing(ino)? {
            Some(object) => object.guard.whole().and_then(|()| next_data(&object.file, offset)),
            None => self.absent(ino).map(|()| None),
        }
    }

    /// Removes the object, if there is one.
    pub fn destroy(&self, ino: u64) -> io::Result<()> {
        let object = self.existing(ino)?;
        // Whoever is sealing it now gives up.
        object.iter().for_each(|object| object.guard.lock().removed = true);
        // First: a seal that outlives the object would say that it is lost.
        self.keeper.forget(ino);
        let Some(object) = object else { return Ok(()) };
        let mut open = self.opened();
        std::fs::remove_file(self.path(ino))?;
        open.remove(ino);
        drop(open);
        self.syncs.errors().forget(ino);
        self.refund(&object, 0..u64::MAX);
        Ok(())
    }

    /// The object itself, open for reading and writing. One that is made for it gets these times: nothing was written.
    ///
    /// # Errors
    /// ENOTSUP where we count: the holder of the descriptor could write past the capacity.
    pub fn descriptor(&self, ino: u64, atime: Time, mtime: Time) -> io::Result<OwnedFd> {
        if self.space.counts() {
            return Err(Errno::NOTSUP.into());
        }
        let is_new = self.existing(ino)?.is_none();
        let object = self.make(ino, &Change::Space)?;
        if is_new {
            self.set_times(ino, Some(atime), Some(mtime))?;
        }
        self.hand_out(ino, &object)
    }

    fn hand_out(&self, ino: u64, object: &Object) -> io::Result<OwnedFd> {
        let found = measure(&object.file)?;
        if found.size <= CHECKED_AT_ONCE_BYTES_MAX {
            // Whoever has it reads without us.
            self.read(ino, 0, &mut [0; CHECKED_AT_ONCE_BYTES_MAX as usize])?;
        }
        self.keeper.hand_out(&object.guard, &found)?;
        second(object)
    }

    /// The object itself, open for reading and writing, where there is one.
    ///
    /// # Errors
    /// ENOTSUP as with [`Objects::descriptor`]; ENOENT.
    pub fn existing_descriptor(&self, ino: u64) -> io::Result<OwnedFd> {
        if self.space.counts() {
            return Err(Errno::NOTSUP.into());
        }
        let Some(object) = self.existing(ino)? else {
            return self.absent(ino).and(Err(Errno::NOENT.into()));
        };
        self.hand_out(ino, &object)
    }

    /// Their checksums.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// Syncs them all at once, where they have a file system of their own. Whether all that was written is safe.
    pub fn sync_whole(&self) -> bool {
        self.syncs.whole(|| self.suspect_all())
    }

    /// The guard of an object that was not changed since it was opened, and perhaps never: `None` where there is no object.
    pub fn guard(&self, ino: u64) -> io::Result<Option<Arc<Guard>>> {
        Ok(self.existing(ino)?.map(|object| object.guard.clone()))
    }

    /// Runs `act` while nobody opens an object, with the guard of this one if it is open.
    pub fn while_none_opens<R>(&self, ino: u64, act: impl FnOnce(Option<&Arc<Guard>>) -> R) -> R {
        let open = self.opened();
        act(open.get(ino).map(|object| &object.guard))
    }

    /// Whether nobody else can write to an object: whoever was given it has closed it.
    pub fn is_closed(&self, ino: u64) -> io::Result<bool> {
        if self.space.counts() {
            return Ok(true);
        }
        if self.is_unsynced(ino) {
            // Else nobody would be told of an error of writing back.
            self.sync_object(ino)?;
        }
        let mut open = self.opened();
        match open.get(ino) {
            Some(object) if Arc::strong_count(object) > 1 || object.pending.is_unsynced() => {
                return Ok(false);
            }
            // Ours would be seen, too.
            _ => open.remove(ino),
        }
        is_closed(&self.path(ino))
    }

    /// Before these are looked at by [`Objects::is_closed`]: syncs them at once, if that is to be.
    pub fn sync_before_closing(&self, mut inos: impl Iterator<Item = u64>) {
        if !self.space.counts() && inos.any(|ino| self.is_unsynced(ino)) {
            self.sync_whole();
        }
    }

    fn is_unsynced(&self, ino: u64) -> bool {
        self.opened().get(ino).is_some_and(|object| object.pending.is_unsynced())
    }

    /// Whether an object that was not there is rightly so.
    fn absent(&self, ino: u64) -> io::Result<()> {
        let look = |_: Option<&Arc<Guard>>| match std::fs::metadata(self.path(ino)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.keeper.check_absent(ino),
            // It was made meanwhile.
            found => found.map(drop),
        };
        self.keeper.check_absent(ino).or_else(|_| self.while_none_opens(ino, look))
    }

    /// The number of every object.
    pub fn list(&self) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for folder in std::fs::read_dir(&self.root)? {
            for object in std::fs::read_dir(folder?.path())? {
                let name = object?.file_name();
                found.extend(name.to_str().and_then(|name| u64::from_str_radix(name, 16).ok()));
            }
        }
        Ok(found)
    }

    /// Objects with numbers above `after`, in order, with their lengths: so many that they fit a message.
    pub fn page(&self, after: u64) -> io::Result<Vec<(u64, u64)>> {
        let mut inos = self.list()?;
        inos.retain(|ino| *ino > after);
        inos.sort_unstable();
        inos.truncate(PAGE_OBJECTS_MAX);
        let length = |ino: u64| match std::fs::metadata(self.path(ino)) {
            Ok(found) => Some(Ok((ino, found.len()))),
            // It was just removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error)),
        };
        inos.into_iter().filter_map(length).collect()
    }

    /// Where an object is.
    pub fn path(&self, ino: u64) -> PathBuf {
        self.root.join(format!("{:02x}/{ino:016x}", ino & 0xff))
    }

    fn existing(&self, ino: u64) -> io::Result<Option<Arc<Object>>> {
        match self.open_object(ino, false) {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The object, to be changed so.
    fn make(&self, ino: u64, change: &Change) -> io::Result<Arc<Object>> {
        if let Some(object) = self.existing(ino)? {
            return Ok(object);
        }
        match self.keeper.replace_absent(ino, change) {
            Ok(()) => self.open_object(ino, true),
            // It may have been made, and sealed, meanwhile.
            Err(error) => self.existing(ino)?.ok_or(error),
        }
    }

    fn open_object(&self, ino: u64, create: bool) -> io::Result<Arc<Object>> {
        let object = match with_room(|| self.try_open(ino, create)) {
            Err(error) if is_shortage(&error) => {
                // Those with unsynced writes cannot be closed before they are synced.
                for (ino, object, path) in self.unsynced(SYNCED_FOR_ROOM) {
                    self.syncs.object(ino, &*object, &path);
                }
                with_room(|| self.try_open(ino, create))?
            }
            opened => opened?,
        };
        open_objects::trim();
        if open_objects::is_crowded() {
            self.syncs.retire(|| self.unsynced(RETIRED_AT_ONCE));
        }
        Ok(object)
    }

    fn try_open(&self, ino: u64, create: bool) -> io::Result<Arc<Object>> {
        let mut open = self.opened();
        if let Some(object) = open.get(ino) {
            return Ok(object.clone());
        }
        let path = self.path(ino);
        let file = match open_file(&path, create) {
            // The first object in its folder.
            Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(path.parent().expect("an object lies in a folder"))?;
                open_file(&path, create)?
            }
            other => other?,
        };
        let extents = if self.space.counts() { extents_of(&file)? } else { Extents::default() };
        let guard = self.keeper.guard(ino, &file)?;
        let (pending, extents) = (Pending::default(), Mutex::new(extents));
        let object = Arc::new(Object { file, pending, extents, guard });
        open.keep(ino, object.clone());
        Ok(object)
    }

    /// The oldest of the open objects that have unsynced writes.
    fn unsynced(&self, count: usize) -> Vec<(u64, Arc<Object>, PathBuf)> {
        let oldest = self.opened().unsynced(count);
        oldest.into_iter().map(|(ino, object)| (ino, object, self.path(ino))).collect()
    }

    fn opened(&self) -> MutexGuard<'_, OpenObjects> {
        self.open.lock().expect(POISON)
    }

    fn charge(&self, object: &Object, blocks: Range<u64>) -> io::Result<()> {
        if self.space.counts() {
            let mut extents = object.extents.lock().expect(POISON);
            self.space.take(extents.missing(blocks.clone()))?;
            extents.insert(blocks);
        }
        Ok(())
    }

    fn refund(&self, object: &Object, blocks: Range<u64>) {
        if self.space.counts() {
            self.space.give_back(object.extents.lock().expect(POISON).remove(blocks));
        }
    }
}

const POISON: &str = "no thread panics while it holds this lock";

/// Does what needs a descriptor, once more if none was left and some could be closed.
fn with_room<T>(action: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match action() {
        Err(error) if is_shortage(&error) && open_objects::make_room() => action(),
        other => other,
    }
}

/// The object once more, for somebody else.
fn second(object: &Object) -> io::Result<OwnedFd> {
    with_room(|| object.file.as_fd().try_clone_to_owned())
}

fn open_file(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(create).mode(0o600).open(path)
}

fn end_of(offset: u64, len: u64) -> io::Result<u64> {
    offset.checked_add(len).filter(|end| i64::try_from(*end).is_ok()).ok_or_else(|| Errno::FBIG.into())
}

pub(crate) fn measure(file: &File) -> io::Result<Measure> {
    let stat = rustix::fs::fstat(file)?;
    // The kernel's nanoseconds are below 10^9, and its sizes are not negative.
    let time = |seconds: i64, nanos: u64| Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
    Ok(Measure {
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    })
}

/// The next range of a file that has data.
pub(crate) fn next_data(file: &File, offset: u64) -> io::Result<Option<Range<u64>>> {
    let start = match rustix::fs::seek(file, SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(start..rustix::fs::seek(file, SeekFrom::Hole(start))?))
}

fn extents_of(file: &File) -> io::Result<Extents> {
    let mut extents = Extents::default();
    let mut at = 0;
    while let Some(range) = next_data(file, at)? {
        at = range.end;
        extents.insert(blocks_touched(range));
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &tempfile::TempDir, space: Arc<Space>) -> Objects {
        let verifier = Verifier::open(folder.path(), &[folder.path().to_owned()]).unwrap();
        let (root, seals) = (folder.path().join("objects"), folder.path().join("seals"));
        disk::make_folder(&root).unwrap();
        Objects::open(root, seals, space, Arc::new(verifier)).unwrap()
    }

    fn objects(capacity: u64) -> (tempfile::TempDir, Arc<Space>, Objects) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("objects")).unwrap();
        let space = Arc::new(Space::counted(capacity));
        let objects = open(&folder, space.clone());
        (folder, space, objects)
    }

    fn errno(result: io::Result<impl std::fmt::Debug>) -> Option<i32> {
        result.unwrap_err().raw_os_error()
    }

    #[test]
    fn a_write_past_the_capacity_is_refused_and_nothing_of_it_stays() {
        let (_folder, space, objects) = objects(8192);
        objects.write(2, 0, &[1; 8192]).unwrap();
        assert_eq!(errno(objects.write(3, 0, &[1])), Some(Errno::NOSPC.raw_os_error()));
        objects.write(2, 100, &[2; 500]).unwrap();
        objects.destroy(2).unwrap();
        assert_eq!(space.used().unwrap(), 0);
        objects.write(3, 0, &[1]).unwrap();
    }

    #[test]
    fn holes_cost_nothing_and_punching_gives_space_back() {
        let (_folder, space, objects) = objects(1 << 20);
        objects.write(2, 1 << 40, &[1; 4096]).unwrap();
        objects.write(2, 0, &[1; 8192]).unwrap();
        assert_eq!(space.used().unwrap(), 3 * 4096);
        objects.allocate(2, 0, 4096, AllocateMode::PunchHole).unwrap();
        objects.resize(2, 8192).unwrap();
        assert_eq!(space.used().unwrap(), 4096);
        assert_eq!(objects.next_data(2, 0).unwrap(), Some(4096..8192));
    }

    #[test]
    fn what_is_used_is_counted_again_after_a_restart() {
        let (folder, space, objects) = objects(1 << 20);
        objects.write(0x12ab, 5, &[7; 5000]).unwrap();
        objects.write(3, 1 << 20, &[7; 10]).unwrap();
        let again = Arc::new(Space::counted(1 << 20));
        let reopened = open(&folder, again.clone());
        assert_eq!(again.used().unwrap(), space.used().unwrap());
        let mut back = [0; 5000];
        assert_eq!(reopened.read(0x12ab, 5, &mut back).unwrap(), 5000);
        assert_eq!(back, [7; 5000]);
    }

    #[test]
    fn an_object_that_was_never_written_reads_as_empty() {
        let (_folder, _space, objects) = objects(1 << 20);
        assert_eq!(objects.read(9, 0, &mut [0; 10]).unwrap(), 0);
        assert_eq!(objects.measure(9).unwrap(), None);
        objects.destroy(9).unwrap();
        objects.sync([1; 16], 9).unwrap();
    }

    #[test]
    fn an_object_in_a_counted_folder_is_never_handed_out() {
        let (_folder, _space, objects) = objects(1 << 20);
        assert_eq!(
            errno(objects.descriptor(2, Time::default(), Time::default())),
            Some(Errno::NOTSUP.raw_os_error())
        );
    }
}
