//! Requests, each answered with one or two system calls on the folder below.

use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use fuse::abi::{Attr, AttrOut, CreateIn, EntryOut, OpenOut, ReadIn, SetAttrIn, open_flag, set_attr};
use fuse::reply::Reply;
use fuse::request::{Operation, Request};
use fuse::session::Handler;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::inodes::Inodes;

thread_local! {
    /// One read's bytes; kept, so that a read costs no allocation.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::default();
}

/// Answers the kernel.
pub struct Server {
    inodes: Inodes,
    files: RwLock<HashMap<u64, Arc<OwnedFd>>>,
    next_handle: AtomicU64,
    cache_for: Duration,
}

impl Server {
    /// Serves `inodes`; the kernel may keep what it learns for so long.
    pub fn new(inodes: Inodes, cache_for: Duration) -> Server {
        Server { inodes, files: RwLock::default(), next_handle: AtomicU64::new(1), cache_for }
    }
}

impl Handler for Server {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        let ino = request.ino();
        match request.operation {
            Operation::Lookup { name } => {
                let found = self.inodes.child(ino, name).and_then(|path| self.inodes.found(path));
                answer(found, reply, |attr, reply| reply.entry(&self.entry(attr)));
            }
            Operation::GetAttr => self.attr(self.inodes.attr(ino), reply),
            Operation::SetAttr(set) => self.attr(self.set_size(ino, &set), reply),
            Operation::MakeDirectory { arguments, name } => {
                let made = self.make_directory(ino, name, Mode::from_raw_mode(arguments.mode));
                answer(made, reply, |attr, reply| reply.entry(&self.entry(attr)));
            }
            Operation::Unlink { name } => done(self.remove(ino, name, AtFlags::empty()), reply),
            Operation::RemoveDirectory { name } => done(self.remove(ino, name, AtFlags::REMOVEDIR), reply),
            Operation::Create { arguments, name } => {
                answer(self.create(ino, name, &arguments), reply, |(attr, opened), reply| {
                    reply.created(&self.entry(attr), &opened);
                });
            }
            Operation::Open(open) => {
                answer(self.open(ino, open.flags), reply, |opened, reply| reply.opened(&opened));
            }
            Operation::Read(read) => self.read(&read, reply),
            Operation::Write { arguments, bytes } => {
                let written = self
                    .file(arguments.fh)
                    .and_then(|file| rustix::io::pwrite(&*file, bytes, arguments.offset));
                answer(written, reply, |_, reply| reply.written(arguments.size));
            }
            Operation::Fsync(fsync) => {
                done(self.file(fsync.fh).and_then(|file| rustix::fs::fsync(&*file)), reply);
            }
            // As ours: without locks to release, the kernel need not tell of closes.
            Operation::Flush(_) if self.cache_for.is_zero() => reply.done(),
            Operation::Release(release) => {
                let files = self.files.write().map_err(|_| Errno::IO);
                done(files.map(|mut files| drop(files.remove(&release.fh))), reply);
            }
            _ => reply.error(Errno::NOSYS),
        }
    }
}

impl Server {
    fn create(&self, parent: u64, name: &[u8], create: &CreateIn) -> Result<(Attr, OpenOut), Errno> {
        let path = self.inodes.child(parent, name)?;
        let flags = OFlags::from_bits_retain(create.flags) | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.inodes.root(), &path, flags, Mode::from_raw_mode(create.mode))?;
        Ok((self.inodes.found(path)?, self.handle_on(file)?))
    }

    fn open(&self, ino: u64, flags: u32) -> Result<OpenOut, Errno> {
        let flags = OFlags::from_bits_retain(flags) | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.inodes.root(), self.inodes.path(ino)?, flags, Mode::empty())?;
        self.handle_on(file)
    }

    fn handle_on(&self, file: OwnedFd) -> Result<OpenOut, Errno> {
        let fh = self.next_handle.fetch_add(1, Ordering::Relaxed);
        self.files.write().map_err(|_| Errno::IO)?.insert(fh, Arc::new(file));
        let open_flags = open_flag::DIRECT_IO | open_flag::PARALLEL_DIRECT_WRITES;
        Ok(OpenOut { fh, open_flags, backing_id: 0 })
    }

    fn file(&self, fh: u64) -> Result<Arc<OwnedFd>, Errno> {
        self.files.read().map_err(|_| Errno::IO)?.get(&fh).cloned().ok_or(Errno::BADF)
    }

    fn read(&self, read: &ReadIn, reply: Reply) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = read.size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let len = self
                .file(read.fh)
                .and_then(|file| rustix::io::pread(&*file, &mut buffer[..size], read.offset));
            answer(len, reply, |len, reply| reply.bytes(&buffer[..len]));
        });
    }

    fn make_directory(&self, parent: u64, name: &[u8], mode: Mode) -> Result<Attr, Errno> {
        let path = self.inodes.child(parent, name)?;
        rustix::fs::mkdirat(self.inodes.root(), &path, mode)?;
        self.inodes.found(path)
    }

    fn remove(&self, parent: u64, name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        rustix::fs::unlinkat(self.inodes.root(), self.inodes.child(parent, name)?, flags)
    }

    /// Nothing that is measured sets anything else.
    fn set_size(&self, ino: u64, set: &SetAttrIn) -> Result<Attr, Errno> {
        if set.valid & set_attr::SIZE != 0 {
            let (path, flags) = (self.inodes.path(ino)?, OFlags::WRONLY | OFlags::CLOEXEC);
            let file = rustix::fs::openat(self.inodes.root(), path, flags, Mode::empty())?;
            rustix::fs::ftruncate(file, set.size)?;
        }
        self.inodes.attr(ino)
    }

    fn attr(&self, result: Result<Attr, Errno>, reply: Reply) {
        let (attr_valid, attr_valid_nsec) = (self.cache_for.as_secs(), self.cache_for.subsec_nanos());
        answer(result, reply, |attr, reply| {
            reply.attr(&AttrOut { attr_valid, attr_valid_nsec, unused: 0, attr });
        });
    }

    fn entry(&self, attr: Attr) -> EntryOut {
        let (secs, nanos) = (self.cache_for.as_secs(), self.cache_for.subsec_nanos());
        EntryOut {
            nodeid: attr.ino,
            generation: 0,
            entry_valid: secs,
            attr_valid: secs,
            entry_valid_nsec: nanos,
            attr_valid_nsec: nanos,
            attr,
        }
    }
}

fn answer<T>(result: Result<T, Errno>, reply: Reply, succeed: impl FnOnce(T, Reply)) {
    match result {
        Ok(value) => succeed(value, reply),
        Err(errno) => reply.error(errno),
    }
}

fn done(result: Result<(), Errno>, reply: Reply) {
    answer(result, reply, |(), reply| reply.done());
}
