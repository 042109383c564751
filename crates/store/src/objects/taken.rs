//! Objects of which the mirror is known to have what is right: what they lack is taken from there, here only.
//!
//! Owns how that is written; whether the mirror is right is [`crate::mirror`]'s to say.
//!
//! **Invariant:** the caller holds the object's range: nobody changes it meanwhile.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use model::Ino;
use rustix::fs::Advice;
use wire::data::{Reply, Time};

use super::admitted::Admitted;
use super::{NO_MORE, Object, Objects};
use crate::extents::{BLOCK_BYTES, blocks_touched};
use crate::integrity::guard::Change;
use crate::integrity::repair::set_time;
use crate::measure::measure;

impl Objects {
    /// What there is of an object, and whether anybody knows what it should be.
    ///
    /// What is read of it next is what the disk has: after a sync that failed the kernel goes on showing what was
    /// written, and calls the next sync a success. But for pages that are in use in this moment; what was heard to have
    /// failed is made anew, and not compared.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn describe(&self, ino: Ino) -> io::Result<Reply> {
        if let Some(object) = self.in_place(ino)? {
            self.sync_object(ino)?;
            rustix::fs::fadvise(&object.file, 0, None, Advice::DontNeed)?;
        }
        let unverified = self.keeper.unverified.has(ino);
        let sealed = !unverified && self.in_place(ino)?.is_some_and(|object| object.guard.is_untouched());
        let (size, mtime) =
            self.measure(ino)?.map_or((0, Time::default()), |found| (found.size, found.mtime));
        Ok(Reply::Mirrored { size, mtime, sealed, unverified })
    }

    /// Makes these bytes what the mirror has. The time of change stays.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn take(&self, ino: Ino, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset + bytes.len() as u64;
        let admitted = self.admit_again(ino, blocks_touched(offset..end));
        self.taken(ino, &Change::Write(offset..end), admitted, |object| {
            object.file.write_all_at(bytes, offset)
        })
    }

    /// Makes it as long as the mirror has it, where it is not.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn take_length(&self, ino: Ino, size: u64) -> io::Result<()> {
        if self.existing(ino)?.is_some_and(|object| measure(&object.file).is_ok_and(|is| is.size == size)) {
            return Ok(());
        }
        self.taken(ino, &Change::Resize(size), self.admit_again(ino, NO_MORE), |object| {
            object.file.set_len(size)?;
            self.refund(object, size.div_ceil(BLOCK_BYTES)..u64::MAX);
            Ok(())
        })
    }

    /// It is going to be taken: nobody uses it until all of it is there, also after a crash.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn begin_taken(&self, ino: Ino) -> io::Result<()> {
        self.keeper.unverified.begin_taken(ino, "an object is not whole yet as its mirror has it")
    }

    /// Whether that was begun, and perhaps cut short: it is what it was in part.
    pub fn is_taken(&self, ino: Ino) -> bool {
        self.keeper.unverified.is_taken(ino)
    }

    /// What was taken of it belongs to no file any more.
    ///
    /// # Errors
    /// The errno of what failed.
    pub fn drop_taken(&self, ino: Ino) -> io::Result<()> {
        self.destroy_here(ino)
    }

    /// All of it is there: it is made durable, and known from now on. One that was made has this time of change.
    ///
    /// # Errors
    /// The errno of what failed: then nobody uses it still.
    pub fn settle_taken(&self, ino: Ino, made: Option<Time>) -> io::Result<()> {
        let path = self.path(ino);
        self.set_times(ino, None, made)?;
        // By a descriptor of our own: an error is not kept from whoever calls fsync.
        File::open(&path)?.sync_all()?;
        disk::sync_names(&path)?;
        self.keeper.unverified.end_taken(ino, true)
    }

    fn taken(
        &self,
        ino: Ino,
        change: &Change,
        admitted: Admitted<'_>,
        act: impl FnOnce(&Object) -> io::Result<()>,
    ) -> io::Result<()> {
        let object = self.made(ino, || self.keeper.take_absent(ino, change))?;
        let before = measure(&object.file)?.mtime;
        let _changing = self.keeper.change_in_doubt(&object.guard, &object.file, change)?;
        admitted.spend(&object);
        let _writing = object.pending.writing();
        act(&object)?;
        set_time(&object.file, (before.seconds, before.nanos))
    }
}
