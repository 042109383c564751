//! Bytes of files: reads, and changes, which are coherent with the kernel's pages on this node.
//!
//! What is to be done when is in [`super::pages`]; this does it.

mod asked;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use asked::{allocate_modes, appends, pages_of};
use client::{Attr, Errno, RequestId, Result, SetAttr};
use disk::aligned::Aligned;
use fuse::abi::{
    AllocateIn, O_DSYNC, READ_LOCKOWNER, ReadIn, WRITE_CACHE, WRITE_KILL_SUIDGID, WRITE_LOCKOWNER, WriteIn,
};
use fuse::device::Device;
use fuse::notify::Notifier;
use fuse::reply::Reply;
use fuse::request::Request;
use fuse::session::BACKGROUND_MAX;
use model::Ino;
use wire::data::message::AllocateMode;

use super::done;
use super::pages::{End, Pages, Step};
use super::waiting::Waiting;
use super::write_back::Refused;
use crate::view::MountView;

/// How many changes wait at once until the kernel has dropped pages; each has a thread. One more is told EBUSY, as the
/// kernel tells who writes past pages that cannot be dropped. Those are requests that the kernel does not wait for, and
/// with all of these in use it could neither fill nor write back a page, for which they wait.
const DROPPING_MAX: usize = 256;
const _: () = assert!(DROPPING_MAX < BACKGROUND_MAX as usize / 2);

/// Who keeps set-user-id over writes.
const ROOT_USER: u32 = 0;
/// No bytes of the file have changed behind the kernel's back.
const ATTRIBUTES_ONLY: i64 = -1;

thread_local! {
    /// One read's bytes; kept, so that a read costs no allocation.
    static READ_BUFFER: RefCell<Aligned> = RefCell::default();
}

/// A request to fill pages.
pub(super) type Fill = (ReadIn, Reply);

/// What is in files.
pub(super) struct Contents {
    pub(super) namespace: Arc<MountView>,
    pub(super) pages: Pages<Fill>,
    notifier: Notifier,
    dropping: Waiting,
    /// Pages that could not be written back.
    pub(super) refused: Refused,
}

/// A change that others see as under way, until it is dropped.
struct Change {
    contents: Arc<Contents>,
    ino: Ino,
    range: Range<u64>,
    number: u64,
}

impl Contents {
    pub(super) fn new(namespace: Arc<MountView>, pages: Pages<Fill>, device: &Device) -> Contents {
        let (notifier, dropping) = (Notifier::new(device), Waiting::new(DROPPING_MAX));
        Contents { namespace, pages, notifier, dropping, refused: Refused::default() }
    }

    pub(super) fn read(&self, ino: Ino, read: ReadIn, reply: Reply) {
        if read.read_flags & READ_LOCKOWNER != 0 {
            return self.answer(ino, &read, reply);
        }
        let pages = pages_of(read.offset, read.size.into());
        if let Some((read, reply)) = self.pages.fill(ino, pages, (read, reply)) {
            self.answer(ino, &read, reply);
        }
    }

    fn answer(&self, ino: Ino, read: &ReadIn, reply: Reply) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = read.size as usize;
            let buffer = buffer.first(size);
            match self.namespace.read(ino, read.offset, buffer) {
                Ok(len) => {
                    if len < size && read.read_flags & READ_LOCKOWNER == 0 {
                        self.pages.ends_at(ino, read.offset.saturating_add(len as u64));
                    }
                    reply.bytes(&buffer[..len]);
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    pub(super) fn write(self: &Arc<Self>, request: &Request<'_>, write: WriteIn, bytes: &[u8], reply: Reply) {
        let (id, ino) = (request.unique(), Ino::from(request.ino()));
        if write.write_flags & WRITE_CACHE != 0 {
            // The kernel keeps the order of its own pages, and may wait for this one before it drops any.
            return self.finish(id, ino, &write, &self.pages.contents(ino, write.offset, bytes), reply);
        }
        let (change, step) = if write.write_flags & WRITE_LOCKOWNER == 0 {
            // A copy of what is written through pages, which the kernel has locked: only what is before may be dropped.
            let own = pages_of(write.offset, write.size.into());
            self.pages.filled(ino, &own);
            match self.end_before(ino, own.start) {
                Some(end) => self.begin(ino, end, 1),
                None => return self.finish(id, ino, &write, bytes, reply),
            }
        } else {
            // Where the end is, which others may have moved, nobody knows before.
            let len = if appends(&write) { u64::MAX } else { write.size.into() };
            self.begin_growing(ino, write.offset, len)
        };
        match step {
            Step::Change => {
                self.finish(id, ino, &write, bytes, reply);
                drop(change);
            }
            Step::Drop => {
                let bytes = bytes.to_vec();
                let finish = move |contents: &Self, reply| contents.finish(id, ino, &write, &bytes, reply);
                change.once_dropped(reply, finish);
            }
        }
    }

    fn finish(&self, id: u64, ino: Ino, write: &WriteIn, bytes: &[u8], reply: Reply) {
        match self.store(id, ino, write, bytes) {
            Ok(()) => reply.written(write.size),
            Err(errno) => {
                if write.write_flags & WRITE_CACHE != 0 {
                    self.refused.count();
                    tracing::error!(%ino, %errno, "what a mapping stored cannot be written back");
                }
                reply.error(errno);
            }
        }
    }

    fn store(&self, id: u64, ino: Ino, write: &WriteIn, bytes: &[u8]) -> Result<()> {
        if write.write_flags & WRITE_KILL_SUIDGID != 0 {
            // The kernel's numbers are even: the next is free for this change.
            self.drop_privileges(id + 1, ino)?;
        }
        if appends(write) {
            self.namespace.append(RequestId::Given(id), ino, write.offset, bytes)?;
        } else {
            self.namespace.write(ino, write.offset, bytes)?;
        }
        // Of files open for direct I/O the kernel leaves O_SYNC and O_DSYNC to us.
        if write.flags & O_DSYNC != 0 {
            self.namespace.fsync(ino, super::files::number_of(write.fh))
        } else {
            Ok(())
        }
    }

    /// A write by an unprivileged user clears set-user-id and set-group-id. The answer to a write cannot say so: the
    /// kernel would go on telling the mode that it knows.
    fn drop_privileges(&self, id: u64, ino: Ino) -> Result<()> {
        if self.namespace.client().mode(ino)? & 0o6000 != 0 {
            let set = SetAttr { drop_privileges: true, ..SetAttr::default() };
            self.namespace.setattr(RequestId::Given(id), ino, &set)?;
            if let Err(error) = self.notifier.inode_changed(ino.into(), ATTRIBUTES_ONLY, 0) {
                tracing::warn!(%ino, %error, "the kernel may show for a while the mode from before a write");
            }
        }
        Ok(())
    }

    pub(super) fn allocate(self: &Arc<Self>, request: &Request<'_>, range: AllocateIn, reply: Reply) {
        let (id, ino) = (request.unique(), Ino::from(request.ino()));
        let modes = match allocate_modes(range.mode) {
            Ok(modes) => modes,
            Err(errno) => return reply.error(errno),
        };
        // The kernel says so of writes, but not of these.
        let drops_privileges = request.uid() != ROOT_USER;
        let allocate = move |contents: &Self, reply: Reply| {
            let one =
                |mode: &AllocateMode| contents.namespace.allocate(ino, range.offset, range.length, *mode);
            let dropped = if drops_privileges { contents.drop_privileges(id + 1, ino) } else { Ok(()) };
            done(dropped.and_then(|()| modes.iter().try_for_each(one)), reply);
        };
        let begun = if modes.contains(&AllocateMode::Grow) {
            self.begin_growing(ino, range.offset, range.length)
        } else if modes.contains(&AllocateMode::KeepSize) {
            return allocate(self, reply);
        } else {
            self.begin(ino, range.offset, range.length)
        };
        match begun {
            (change, Step::Change) => {
                allocate(self, reply);
                drop(change);
            }
            (change, Step::Drop) => change.once_dropped(reply, allocate),
        }
    }

    /// Changes attributes. Who makes a file longer makes no contents of what mappings stored beyond its end.
    pub(super) fn set_attr(&self, id: RequestId, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let former_end = set.size.and_then(|size| self.end_before(ino, size));
        let attr = self.namespace.setattr(id, ino, set)?;
        if let Some(end) = former_end {
            self.pages.grew_from(ino, end);
        }
        Ok(attr)
    }

    /// Where the file ends before `offset`, in a page that the kernel may have.
    fn end_before(&self, ino: Ino, offset: u64) -> Option<u64> {
        if self.pages.end(ino) == End::Unknown {
            // If it cannot be told, the change that asks will fail as well.
            self.pages.ends_at(ino, self.namespace.getattr(ino).ok()?.size);
        }
        match self.pages.end(ino) {
            End::At(end) if end < offset => Some(end),
            _ => None,
        }
    }

    /// Has the kernel drop all pages and attributes that it has of files.
    pub(super) fn drop_all(&self) {
        for ino in self.pages.forget() {
            if let Err(error) = self.notifier.inode_changed(ino.into(), 0, 0) {
                tracing::warn!(%ino, %error, "the kernel does not drop pages that a storage node has lost");
            }
        }
    }

    /// A change that makes the file longer where it goes beyond the end.
    fn begin_growing(self: &Arc<Self>, ino: Ino, offset: u64, len: u64) -> (Change, Step) {
        let start = self.end_before(ino, offset).unwrap_or(offset);
        self.begin(ino, start, len.saturating_add(offset - start))
    }

    fn begin(self: &Arc<Self>, ino: Ino, offset: u64, len: u64) -> (Change, Step) {
        let range = pages_of(offset, len);
        let (number, step) = self.pages.begin(ino, range.clone());
        (Change { contents: Arc::clone(self), ino, range, number }, step)
    }
}

impl Change {
    /// Makes the change once the kernel has dropped the pages, in a thread of its own: the kernel may have to write
    /// them back first, and somebody must answer that.
    fn once_dropped(self, reply: Reply, make: impl FnOnce(&Contents, Reply) + Send + 'static) {
        let Some(place) = self.contents.dropping.enter() else {
            tracing::warn!(
                ino = %self.ino,
                "too many writes at once wait for pages of mappings to be written back"
            );
            return reply.error(Errno::BUSY);
        };
        let work = move || {
            self.drop_pages();
            drop(place);
            make(&self.contents, reply);
        };
        // Without a thread the closure is dropped and the reply in it, which answers the request.
        if let Err(error) = std::thread::Builder::new().name("change".into()).spawn(work) {
            tracing::warn!(%error, "no thread for a write beside a mapping");
        }
    }

    fn drop_pages(&self) {
        let offset = i64::try_from(self.range.start).unwrap_or(i64::MAX);
        // Zero is all that follows.
        let len =
            if self.range.end > i64::MAX.cast_unsigned() { 0 } else { self.range.end - self.range.start };
        loop {
            if let Err(error) =
                self.contents.notifier.inode_changed(self.ino.into(), offset, len.cast_signed())
            {
                tracing::warn!(ino = %self.ino, %error, "the kernel does not drop pages");
            }
            if self.contents.pages.dropped(self.ino, self.number) == Step::Change {
                return;
            }
        }
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        for (read, reply) in self.contents.pages.over(self.ino, self.number) {
            self.contents.read(self.ino, read, reply);
        }
    }
}
