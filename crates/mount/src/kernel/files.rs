//! Open files: their handles. Their bytes are in [`super::contents`].
//!
//! A handle is no more than [`DIRECT`], [`PASSED_THROUGH`] or [`CACHED`] and its number ([`client::Client::handle`]);
//! what else there is to know goes by the inode. So it means the same to any process that serves the mount. Whoever
//! gets which of them is in [`client::Sharing::way`].

use std::os::fd::{AsFd, OwnedFd};

use client::{Attr, Errno, Handed, Names as _, Opener, Result, Since, Way};
use fuse::abi::{CreateIn, FlushIn, O_DSYNC, OpenIn, OpenOut, ReleaseIn, SeekIn, open_flag};
use fuse::backing::BackingId;
use fuse::reply::Reply;
use fuse::request::Request;
use model::Ino;
use rustix::fs::OFlags;

use super::names::{creator, id_of};
use super::pages::Joined;
use super::{Kernel, attributes, done};
use crate::ledger::record::{Backing, Record};
use crate::view::Seek;

/// A handle whose reads and writes come to us.
const DIRECT: u64 = 0;
/// A handle whose reads and writes the kernel does itself.
const PASSED_THROUGH: u64 = 1;

/// A handle whose reads and writes go through the kernel's pages.
const CACHED: u64 = 2;

/// How a handle goes is in its lowest bits, its number in the others.
const WAY_BITS: u32 = 2;

/// A backing file's number, and the object.
type Passed = Option<(u32, Handed)>;

/// The kernel numbers backing files from 1.
const NO_BACKING: u32 = 0;
/// In the ledger: the kernel's pages instead of a backing file.
pub(super) const PAGES: u32 = u32::MAX;

/// `SEEK_DATA` and `SEEK_HOLE` of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Kernel {
    pub(super) fn open(&self, request: &Request<'_>, open: &OpenIn, reply: Reply) {
        if let Some(before) = self.done_before(request) {
            return reply.opened(&self.handle(before.backing_id, false));
        }
        match self.open_file(request, open.flags) {
            Ok(opened) => reply.opened(&opened),
            Err(errno) => reply.error(errno),
        }
    }

    fn open_file(&self, request: &Request<'_>, flags: u32) -> Result<OpenOut> {
        let (ino, write) = (Ino::from(request.ino()), writes(flags));
        if write {
            self.keep_name(flags)?;
        }
        let mode = self.namespace.client().open(ino, write)?;
        self.handle_on(request, (ino, mode), write, None)
    }

    /// Where each write is to survive with all that leads to it, and the kernel may make it past us: makes all names
    /// survive before.
    fn keep_name(&self, flags: u32) -> Result<()> {
        if flags & O_DSYNC == 0 { Ok(()) } else { self.namespace.client().sync_names() }
    }

    pub(super) fn create(&self, request: &Request<'_>, create: &CreateIn, name: &[u8], reply: Reply) {
        match self.create_file(request, create, name) {
            Ok((attr, opened)) => {
                reply.created(&attributes::entry_out(&attr, self.cache_for()), &opened);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn create_file(&self, request: &Request<'_>, create: &CreateIn, name: &[u8]) -> Result<(Attr, OpenOut)> {
        if let Some(before) = self.done_before(request) {
            return Ok((self.namespace.getattr(before.ino())?, self.handle(before.backing_id, false)));
        }
        let (parent, mode, creator) =
            (Ino::from(request.ino()), create.mode & 0o7777, creator(request, create.umask));
        let (id, client) = (id_of(request), self.namespace.client());
        let since = client.now();
        let made = if self.passthrough.usable() && may_begin_to_pass(mode) {
            client.create_with_object(id, parent, name, mode, &creator)
        } else {
            client.create(id, parent, name, mode, &creator).map(|attr| (attr, None))
        };
        let (attr, object) = made.map_err(|errno| not_created(errno, create.flags))?;
        let write = writes(create.flags);
        // The file is open for writing; a creator who only wants to read closes that and opens again.
        if !write {
            client.open(attr.ino, false)?;
            self.namespace.close(attr.ino, true)?;
        } else if let Err(errno) = self.keep_name(create.flags) {
            self.namespace.close(attr.ino, true)?;
            return Err(errno);
        }
        let object = object.map(|object| (object, since));
        Ok((attr, self.handle_on(request, (attr.ino, attr.mode), write, object)?))
    }

    pub(super) fn release(&self, request: &Request<'_>, release: &ReleaseIn, reply: Reply) {
        if self.done_before(request).is_some() {
            return reply.done();
        }
        let (ino, write, way) = (Ino::from(request.ino()), writes(release.flags), way_of(release.fh));
        let (passed, noted) = (way == PASSED_THROUGH, way != DIRECT);
        let unlocked = self.release_locks(ino, release);
        let closed = self.namespace.close(ino, write);
        self.ledger.closed(request.unique(), ino, write, noted);
        // After the ledger: a successor must not use a backing file that is not there any more.
        if passed {
            self.passthrough.release(ino, write, self.namespace.client());
        } else {
            self.contents.pages.close(ino);
        }
        done(unlocked.and(closed), reply);
    }

    /// What a former process made of this open, create or release. It was not answered, but it was done.
    fn done_before(&self, request: &Request<'_>) -> Option<Record> {
        if request.is_resent() { self.ledger.done(request.unique()) } else { None }
    }

    pub(super) fn flush(&self, ino: Ino, flush: &FlushIn, reply: Reply) {
        if !self.namespace.client().sharing().owns_contents() {
            let flushed = self.namespace.flush(ino, number_of(flush.fh));
            // Whatever came of that, locks do not stay.
            return done(self.release_ranges(ino, flush.lock_owner).and(flushed), reply);
        }
        // Nothing is held back, so there is nothing to do at close: ENOSYS tells the kernel not to ask again.
        reply.error(Errno::NOSYS);
    }

    pub(super) fn seek(&self, ino: Ino, seek: &SeekIn, reply: Reply) {
        let to = match seek.whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            // The kernel does the others itself.
            _ => return reply.error(Errno::INVAL),
        };
        match self.namespace.seek(ino, seek.offset, to) {
            Ok(found) => reply.offset(found),
            Err(errno) => reply.error(errno),
        }
    }

    /// Makes a file survive a power loss, for one of its handles.
    pub(super) fn fsync(&self, ino: Ino, handle: u64) -> Result<()> {
        let synced = self.namespace.fsync(ino, number_of(handle));
        // After it: the node is known as it is now.
        let is_the_file = match way_of(handle) {
            PASSED_THROUGH => self.passthrough.check(ino, self.namespace.client()),
            _ => Ok(()),
        };
        synced.and(is_the_file)
    }

    /// The answer to an open of a file, with these permission bits, that the file system has opened, once it is in the
    /// ledger. Where there is none the file is closed again.
    fn handle_on(
        &self,
        request: &Request<'_>,
        (ino, mode): (Ino, u32),
        write: bool,
        object: Option<(OwnedFd, Since)>,
    ) -> Result<OpenOut> {
        let passed = self.pass(ino, mode, object).inspect_err(|_| {
            // The error that is told is why.
            let _closed = self.namespace.close(ino, write);
        });
        let backing = passed?;
        let client = self.namespace.client();
        let opener = Opener { has_object: backing.is_some(), writes: write };
        let (backing, keep) = match (client.sharing().way(opener), backing) {
            (Way::PassedThrough, Some((id, handed))) => {
                if write {
                    client.kernel_writes(ino);
                }
                (Backing { id, object: handed.object().unwrap_or_default() }, false)
            }
            (way, _) => {
                let (id, keep) = self.join(ino, way);
                (Backing { id, ..Backing::default() }, keep)
            }
        };
        self.ledger.opened(request.unique(), ino, write, backing);
        Ok(self.handle(backing.id, keep))
    }

    /// The backing file with which an open of this file, with these permission bits, is passed through.
    fn pass(&self, ino: Ino, mode: u32, object: Option<(OwnedFd, Since)>) -> Result<Passed> {
        // The kernel keeps pages of a file, for handles or for mappings, or passes it through, not both.
        if !self.may_pass(ino, mode) || self.contents.pages.is_open(ino) {
            return Ok(None);
        }
        let client = self.namespace.client();
        let register = || {
            let (object, handed) = match object {
                Some((object, since)) => {
                    let handed = client.handed(object.as_fd(), since)?;
                    (object, handed)
                }
                None => client.hand_out(ino)?,
            };
            Ok((BackingId::register(&self.device, object.as_fd())?, handed))
        };
        self.passthrough.open(ino, client, register)
    }

    /// A handle on a file with this backing file, or without one; `keep`: the pages that the kernel has are true.
    fn handle(&self, backing_id: u32, keep: bool) -> OpenOut {
        let (way, open_flags, backing_id) = match backing_id {
            NO_BACKING => (DIRECT, open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES, backing_id),
            PAGES => (CACHED, if keep { open_flag::KEEP_CACHE } else { 0 }, NO_BACKING),
            _ => (PASSED_THROUGH, open_flag::PASSTHROUGH, backing_id),
        };
        OpenOut { fh: self.namespace.client().handle() << WAY_BITS | way, open_flags, backing_id }
    }

    /// What the ledger says of a handle that is not passed through, and would go this `way` if it were the first; and
    /// whether the pages that are there stay.
    fn join(&self, ino: Ino, way: Way) -> (u32, bool) {
        match self.contents.pages.open(ino, way) {
            Joined::Direct => (NO_BACKING, false),
            Joined::Cached { keep } => (PAGES, keep),
        }
    }

    /// Whether an open of this file may be passed through. The kernel does not tell us of writes then, so a file whose
    /// set-user-id bit a write must clear is not, unless other opens of it are already.
    fn may_pass(&self, ino: Ino, mode: u32) -> bool {
        may_begin_to_pass(mode) || self.passthrough.is_open(ino)
    }
}

/// Whether a file with these permission bits, that has no handle, may be passed through.
fn may_begin_to_pass(mode: u32) -> bool {
    mode & 0o6000 == 0
}

/// How a handle goes.
fn way_of(fh: u64) -> u64 {
    fh & ((1 << WAY_BITS) - 1)
}

/// The number of a handle.
pub(super) fn number_of(fh: u64) -> u64 {
    fh >> WAY_BITS
}

/// Another node may have made the file since the kernel looked. Who did not ask for a new one is to open that: the
/// kernel looks again, with all its checks, when the open fails with ESTALE (`do_filp_open` in fs/namei.c).
fn not_created(errno: Errno, flags: u32) -> Errno {
    let exclusive = OFlags::from_bits_retain(flags).contains(OFlags::EXCL);
    if errno == Errno::EXIST && !exclusive { Errno::STALE } else { errno }
}

fn writes(flags: u32) -> bool {
    !(OFlags::from_bits_retain(flags) & OFlags::ACCMODE).is_empty()
}
