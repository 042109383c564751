//! What is in the files of a folder that plays a buffer.

use std::fs::File;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, Ordering};

use client::{Contents, LostByDisk, Names, Operations, RequestId, Result, Survey, Usage};
use model::{FragmentIndex, Ino};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;
use wire::data::message::{AllocateMode, Loss, LostOf};
use wire::data::{Attr, Time};

use super::{Faults, FolderNamespace, errno};

impl Contents for FolderNamespace {
    fn read(&self, ino: Ino, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        Faults::due(&self.faults.failing_reads)?;
        let path = self.path(ino)?;
        let length = File::open(&path).and_then(|file| file.read_at(buffer, offset)).map_err(errno)?;
        let flipped = self.faults.flipped.lock().unwrap();
        if length > 0 && flipped.as_deref().is_some_and(|name| path.ends_with(name)) {
            buffer[length / 2] ^= 0x10;
        }
        let due = self.faults.after_read.lock().unwrap().take_if(|(name, _)| path.ends_with(name));
        due.into_iter().for_each(|(_, event)| event());
        Ok(length)
    }

    fn write(&self, ino: Ino, offset: u64, bytes: &[u8]) -> Result<()> {
        assert!(bytes.len() <= 1 << 20, "{} bytes in one write", bytes.len());
        Faults::due(&self.faults.failing_writes)?;
        if let Some(room) = &mut *self.faults.room.lock().unwrap() {
            *room = room.checked_sub(bytes.len() as u64).ok_or(Errno::NOSPC)?;
        }
        let file = File::options().write(true).open(self.path(ino)?).map_err(errno)?;
        file.write_all_at(bytes, offset).map_err(errno)
    }

    fn append(&self, _id: RequestId, ino: Ino, bytes: &[u8]) -> Result<u64> {
        let end = self.getattr(ino)?.size;
        self.write(ino, end, bytes)?;
        Ok(end)
    }

    fn allocate(&self, ino: Ino, offset: u64, len: u64, _mode: AllocateMode) -> Result<()> {
        let file = File::options().write(true).open(self.path(ino)?).map_err(errno)?;
        rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len)
    }

    fn next_data(&self, ino: Ino, offset: u64) -> Result<Option<Range<u64>>> {
        let file = File::open(self.path(ino)?).map_err(errno)?;
        match rustix::fs::seek(&file, SeekFrom::Data(offset)) {
            Ok(start) => Ok(Some(start..rustix::fs::seek(&file, SeekFrom::Hole(start))?)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn next_hole(&self, ino: Ino, offset: u64, _size: u64) -> Result<u64> {
        let file = File::open(self.path(ino)?).map_err(errno)?;
        rustix::fs::seek(&file, SeekFrom::Hole(offset))
    }

    fn fsync(&self, ino: Ino) -> Result<()> {
        let path = self.path(ino)?;
        Faults::due(&self.faults.failing_syncs).inspect_err(|_| {
            if self.faults.lossy_syncs.load(Ordering::Relaxed) {
                let file = File::options().write(true).open(&path).unwrap();
                let size = file.metadata().unwrap().len();
                file.set_len(0).and_then(|()| file.set_len(size)).unwrap();
            }
        })
    }

    fn is_written(&self, _ino: Ino) -> Result<bool> {
        Ok(false)
    }

    fn place(&self, _ino: Ino, _offset: u64, _len: u64) -> Option<(FragmentIndex, u64)> {
        None
    }

    fn object_on(&self, _ino: Ino, _fragment: FragmentIndex) -> Result<OwnedFd> {
        Err(Errno::NOTSUP)
    }

    fn wrote(&self, _ino: Ino, _end: u64, _mtime: Time) {}
}

impl Operations for FolderNamespace {
    fn open_all(&self, inos: &[Ino]) -> Vec<Result<Attr>> {
        inos.iter().map(|ino| self.getattr(*ino)).collect()
    }

    fn survey(&self, inos: &[Ino]) -> Vec<Survey> {
        inos.iter().map(|ino| (self.getattr(*ino), self.listxattr(*ino))).collect()
    }

    fn read_all(&self, files: &[(Ino, usize)]) -> Vec<Option<Vec<u8>>> {
        files.iter().map(|_| None).collect()
    }

    fn fsync_many(&self, inos: &[Ino]) -> Result<()> {
        inos.iter().try_for_each(|ino| self.fsync(*ino))
    }

    fn flush(&self, inos: &[Ino]) -> Result<Vec<LostByDisk>> {
        let lost = self.faults.lost_by_disk.lock().unwrap();
        let lost: Vec<Ino> = inos.iter().copied().filter(|ino| lost.contains(ino)).collect();
        self.faults.lost_writes.lock().unwrap().extend(&lost);
        Ok(lost.into_iter().map(|ino| LostByDisk { ino, untold: Some(FragmentIndex(0)) }).collect())
    }

    fn usage(&self) -> Result<Usage> {
        Ok(Usage { capacity: 3_000_000, ..Usage::default() })
    }

    fn lost_writes(&self) -> Result<Vec<Loss>> {
        let loss = |ino: &Ino| Loss {
            number: 1,
            of: LostOf { ino: *ino, fragment: FragmentIndex(0), verifier: 1 },
            age_ms: 0,
            seconds: 0,
            told: false,
        };
        Ok(self.faults.lost_writes.lock().unwrap().iter().map(loss).collect())
    }

    fn unverified(&self) -> Result<Vec<(Ino, FragmentIndex)>> {
        Ok(self.faults.unverified.lock().unwrap().iter().map(|ino| (*ino, FragmentIndex(0))).collect())
    }
}

impl Faults {
    pub(super) fn due(counter: &AtomicI64) -> Result<()> {
        let left = counter.load(Ordering::Relaxed);
        if left > 0 {
            counter.fetch_sub(1, Ordering::Relaxed);
        }
        if left == 0 { Ok(()) } else { Err(Errno::IO) }
    }
}
