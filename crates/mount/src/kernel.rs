//! FUSE: the kernel's requests, answered by a [`FileSystem`].
//!
//! Files are opened for direct I/O (each write arrives with exactly its bytes, parallel inside the file's end) or, where
//! the whole file is one local object in a volume, passed through. The kernel's write-back cache is never used: it sends
//! whole pages and so corrupted half of the records that two mounts wrote into one file.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use client::{Attr, Creator, Errno, FileKind, ROOT, SetAttr, Time};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenAccMode, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, Session, SessionACL,
    TimeOrNow, WriteFlags,
};
use rustix::fs::{FallocateFlags, OFlags};
use wire::data::message::{AllocateMode, RenameMode, XattrMode};

use crate::filesystem::{FileSystem, NewInode, Result, Seek};
use crate::passthrough::Passthrough;

/// Threads that take requests. Each blocks while a storage node works, so more than there are cores.
const THREADS: usize = 8;

/// The largest read or write request: 1 MiB, one stripe. Larger ones won nothing in measurements.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The unit of `statfs`.
const BLOCK_BYTES: u64 = 4096;

/// Mounts `filesystem` at `mountpoint`, named `name` in the mount table, and serves it in the background.
///
/// # Errors
/// What mounting failed with.
pub fn mount(filesystem: impl FileSystem, mountpoint: &Path, name: &str) -> io::Result<BackgroundSession> {
    let privileged = rustix::process::geteuid().is_root();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(name.to_owned()),
        MountOption::Subtype("forebay".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
        MountOption::NoAtime,
    ];
    // An ordinary user may not let others in (unless fuse.conf says so), and on one machine nobody else needs to.
    config.acl = if privileged { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    // Registering a backing file takes CAP_SYS_ADMIN.
    let kernel = Kernel { filesystem, passthrough: Passthrough::new(privileged) };
    Session::new(kernel, mountpoint, &config)?.spawn()
}

/// Answers the kernel.
struct Kernel<F> {
    filesystem: F,
    passthrough: Passthrough,
}

impl<F: FileSystem> Kernel<F> {
    fn entry(&self, result: Result<Attr>, reply: ReplyEntry) {
        match result {
            Ok(attr) => reply.entry(&self.filesystem.cache_for(), &file_attr(&attr), Generation(0)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn attr(&self, result: Result<Attr>, reply: ReplyAttr) {
        match result {
            Ok(attr) => reply.attr(&self.filesystem.cache_for(), &file_attr(&attr)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    /// Whether an open of this file may be passed through. The kernel does not tell us of writes then, so a file whose
    /// set-user-id bit a write must clear is not, unless other opens of it are already.
    fn may_pass(&self, attr: &Attr) -> bool {
        attr.mode & 0o6000 == 0 || self.passthrough.is_open(attr.ino)
    }

    fn backing(&self, ino: u64) -> io::Result<std::os::fd::OwnedFd> {
        Ok(self.filesystem.object(ino)?)
    }

    /// A write by an unprivileged user clears set-user-id and set-group-id.
    fn drop_privileges(&self, ino: u64) -> Result<()> {
        let attr = self.filesystem.getattr(ino)?;
        if attr.mode & 0o6000 != 0 {
            self.filesystem.setattr(ino, &SetAttr { drop_privileges: true, ..SetAttr::default() })?;
        }
        Ok(())
    }
}

thread_local! {
    /// One read's bytes; kept, so that a read costs no allocation.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::default();
}

/// Direct I/O, and writes inside the file's end in parallel.
const DIRECT: FopenFlags = FopenFlags::FOPEN_DIRECT_IO.union(FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);

impl<F: FileSystem> Filesystem for Kernel<F> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let wanted = [
            // Without it a shared mapping of a file open for direct I/O is ENODEV.
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            // Without it the kernel asks for security.capability before every single write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ];
        for capability in wanted {
            if let Err(missing) = config.add_capabilities(capability) {
                tracing::info!(?missing, "this kernel's FUSE lacks a capability");
            }
        }
        let passes = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        if !passes {
            self.passthrough = Passthrough::new(false);
        }
        for (what, set) in [
            ("max_write", config.set_max_write(REQUEST_BYTES_MAX).err()),
            ("max_readahead", config.set_max_readahead(REQUEST_BYTES_MAX).err()),
        ] {
            if let Some(nearest) = set {
                tracing::info!(what, nearest, "the kernel takes another size of request");
            }
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.filesystem.lookup(parent.0, name.as_bytes()), reply);
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.attr(self.filesystem.getattr(ino.0), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = SetAttr {
            mode: mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size,
            atime: atime.map(time_or_now),
            mtime: mtime.map(time_or_now),
            drop_privileges: size.is_some() && request.uid() != 0,
        };
        self.attr(self.filesystem.setattr(ino.0, &set), reply);
    }

    fn readlink(&self, _request: &Request, ino: INodeNo, reply: ReplyData) {
        match self.filesystem.readlink(ino.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let Some(kind) = kind_of(mode) else { return reply.error(error(Errno::INVAL)) };
        let new = NewInode {
            kind,
            mode: mode & 0o7777,
            rdev: u64::from(rdev),
            target: b"",
            creator: creator(request),
        };
        self.entry(self.filesystem.make(parent.0, name.as_bytes(), &new), reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let new = NewInode {
            kind: FileKind::Directory,
            mode: mode & 0o7777,
            rdev: 0,
            target: b"",
            creator: creator(request),
        };
        self.entry(self.filesystem.make(parent.0, name.as_bytes(), &new), reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.filesystem.unlink(parent.0, name.as_bytes()), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.filesystem.rmdir(parent.0, name.as_bytes()), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let new = NewInode {
            kind: FileKind::Symlink,
            mode: 0o777,
            rdev: 0,
            target: target.as_os_str().as_bytes(),
            creator: creator(request),
        };
        self.entry(self.filesystem.make(parent.0, name.as_bytes(), &new), reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mode = if flags.is_empty() {
            RenameMode::Replace
        } else if flags == RenameFlags::RENAME_NOREPLACE {
            RenameMode::NoReplace
        } else if flags == RenameFlags::RENAME_EXCHANGE {
            RenameMode::Exchange
        } else {
            return reply.error(error(Errno::INVAL));
        };
        let (name, new_name) = (name.as_bytes(), new_name.as_bytes());
        done(self.filesystem.rename(parent.0, name, new_parent.0, new_name, mode), reply);
    }

    fn link(&self, _request: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.filesystem.link(ino.0, parent.0, name.as_bytes()), reply);
    }

    fn open(&self, _request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let attr = match self.filesystem.open(ino.0, writes(flags)) {
            Ok(attr) => attr,
            Err(errno) => return reply.error(error(errno)),
        };
        let backing = || reply.open_backing(self.backing(ino.0)?);
        let backing = if self.may_pass(&attr) { self.passthrough.open(ino.0, backing) } else { None };
        match backing {
            Some(backing) => reply.opened_passthrough(FileHandle(1), FopenFlags::empty(), &backing),
            None => reply.opened(FileHandle(0), DIRECT),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let attr = match self.filesystem.create(parent.0, name.as_bytes(), mode & 0o7777, &creator(request)) {
            Ok(attr) => attr,
            Err(errno) => return reply.error(error(not_created(errno, flags))),
        };
        // The file is open for writing; a creator who only wants to read closes that and opens again.
        if !writes(OpenFlags(flags)) {
            let reopened =
                self.filesystem.open(attr.ino, false).and_then(|_| self.filesystem.close(attr.ino, true));
            if let Err(errno) = reopened {
                return reply.error(error(errno));
            }
        }
        let backing = || reply.open_backing(self.backing(attr.ino)?);
        let backing = if self.may_pass(&attr) { self.passthrough.open(attr.ino, backing) } else { None };
        let (cache_for, attr) = (self.filesystem.cache_for(), file_attr(&attr));
        match backing {
            Some(id) => {
                reply.created_passthrough(
                    &cache_for,
                    &attr,
                    Generation(0),
                    FileHandle(1),
                    FopenFlags::empty(),
                    &id,
                );
            }
            None => reply.created(&cache_for, &attr, Generation(0), FileHandle(0), DIRECT),
        }
    }

    fn release(
        &self,
        _request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if handle == FileHandle(1) {
            self.passthrough.release(ino.0);
        }
        done(self.filesystem.close(ino.0, writes(flags)), reply);
    }

    fn read(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        READ_BUFFER.with_borrow_mut(|buffer| {
            let size = size as usize;
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            match self.filesystem.read(ino.0, offset, &mut buffer[..size]) {
                Ok(read) => reply.data(&buffer[..read]),
                Err(errno) => reply.error(error(errno)),
            }
        });
    }

    fn write(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let result = if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            self.drop_privileges(ino.0)
        } else {
            Ok(())
        };
        match result.and_then(|()| self.filesystem.write(ino.0, offset, data)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // Nothing is held back, so there is nothing to do at close: ENOSYS tells the kernel not to ask again.
        reply.error(error(Errno::NOSYS));
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        done(self.filesystem.fsync(ino.0), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _datasync: bool, reply: ReplyEmpty) {
        done(self.filesystem.sync_metadata(), reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let result = self.list(ino.0, offset, |cookie, name, attr| {
            reply.add(INodeNo(attr.ino), cookie, file_type(attr.kind), OsStr::from_bytes(name))
        });
        match result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let cache_for = self.filesystem.cache_for();
        let result = self.list(ino.0, offset, |cookie, name, attr| {
            let name = OsStr::from_bytes(name);
            reply.add(INodeNo(attr.ino), cookie, name, &cache_for, &file_attr(attr), Generation(0))
        });
        match result {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn statfs(&self, _request: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        match self.filesystem.usage() {
            Ok(usage) => {
                let blocks = usage.capacity / BLOCK_BYTES;
                let free = usage.capacity.saturating_sub(usage.used) / BLOCK_BYTES;
                let unit = u32::try_from(BLOCK_BYTES).expect("4096 fits");
                // Inodes have no limit of their own: as many more as there are free blocks is a modest promise.
                reply.statfs(blocks, free, free, usage.inodes + free, free, unit, 255, unit);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::XattrFlags::from_bits_retain(u32::try_from(flags).unwrap_or(0));
        let mode = if flags.contains(rustix::fs::XattrFlags::CREATE) {
            XattrMode::Create
        } else if flags.contains(rustix::fs::XattrFlags::REPLACE) {
            XattrMode::Replace
        } else {
            XattrMode::Any
        };
        done(self.filesystem.setxattr(ino.0, name.as_bytes(), value, mode), reply);
    }

    fn getxattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattr(self.filesystem.getxattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.filesystem.listxattr(ino.0);
        let terminated = |name: Vec<u8>| name.into_iter().chain([0]);
        xattr(names.map(|names| names.into_iter().flat_map(terminated).collect()), size, reply);
    }

    fn removexattr(&self, _request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.filesystem.removexattr(ino.0, name.as_bytes()), reply);
    }

    fn fallocate(
        &self,
        _request: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let flags = FallocateFlags::from_bits_retain(u32::try_from(mode).unwrap_or(u32::MAX));
        let keep = FallocateFlags::KEEP_SIZE;
        let result = if flags.is_empty() {
            self.filesystem.allocate(ino.0, offset, length, AllocateMode::Grow)
        } else if flags == keep {
            self.filesystem.allocate(ino.0, offset, length, AllocateMode::KeepSize)
        } else if flags == FallocateFlags::PUNCH_HOLE | keep {
            self.filesystem.allocate(ino.0, offset, length, AllocateMode::PunchHole)
        } else if flags == FallocateFlags::ZERO_RANGE | keep {
            self.filesystem.allocate(ino.0, offset, length, AllocateMode::Zero)
        } else if flags == FallocateFlags::ZERO_RANGE {
            let zeroed = self.filesystem.allocate(ino.0, offset, length, AllocateMode::Zero);
            zeroed.and_then(|()| self.filesystem.allocate(ino.0, offset, length, AllocateMode::Grow))
        } else {
            Err(Errno::OPNOTSUPP)
        };
        done(result, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        // SEEK_DATA and SEEK_HOLE of lseek(2); the kernel does the others itself.
        let to = match whence {
            3 => Seek::Data,
            4 => Seek::Hole,
            _ => return reply.error(error(Errno::INVAL)),
        };
        let Ok(offset) = u64::try_from(offset) else { return reply.error(error(Errno::NXIO)) };
        match self.filesystem.seek(ino.0, offset, to) {
            Ok(found) => reply.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(error(errno)),
        }
    }
}

/// Cookies of `.` and `..`; those of the file system follow.
const DOT: u64 = 1;
const DOT_DOT: u64 = 2;

impl<F: FileSystem> Kernel<F> {
    /// Gives entries after `offset` to `add` until it says that the reply is full.
    fn list(&self, ino: u64, offset: u64, mut add: impl FnMut(u64, &[u8], &Attr) -> bool) -> Result<()> {
        let dots = [(DOT, b".".as_slice()), (DOT_DOT, b"..")];
        if offset < DOT_DOT {
            let mut attr = self.filesystem.getattr(ino)?;
            for (cookie, name) in dots {
                if cookie == DOT_DOT {
                    attr = self.filesystem.lookup(ino, b"..").or_else(|_| self.filesystem.getattr(ROOT))?;
                }
                if cookie > offset && add(cookie, name, &attr) {
                    return Ok(());
                }
            }
        }
        let mut cookie = offset.saturating_sub(DOT_DOT);
        loop {
            let page = self.filesystem.readdir(ino, cookie)?;
            let Some(last) = page.last() else { return Ok(()) };
            cookie = last.cookie;
            for entry in &page {
                if add(entry.cookie + DOT_DOT, &entry.name, &entry.attr) {
                    return Ok(());
                }
            }
        }
    }
}

fn done(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(error(errno)),
    }
}

fn xattr(result: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match result {
        Ok(value) if size == 0 => reply.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => reply.error(error(Errno::RANGE)),
        Ok(value) => reply.data(&value),
        Err(errno) => reply.error(error(errno)),
    }
}

/// Another node may have made the file since the kernel looked. Who did not ask for a new one is to open that: the kernel
/// looks again, with all its checks, when the open fails with ESTALE (`do_filp_open` in fs/namei.c).
fn not_created(errno: Errno, flags: i32) -> Errno {
    let exclusive = OFlags::from_bits_retain(flags.cast_unsigned()).contains(OFlags::EXCL);
    if errno == Errno::EXIST && !exclusive { Errno::STALE } else { errno }
}

fn error(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

fn creator(request: &Request) -> Creator {
    Creator { uid: request.uid(), gid: request.gid() }
}

fn writes(flags: OpenFlags) -> bool {
    flags.acc_mode() != OpenAccMode::O_RDONLY
}

fn file_attr(attr: &Attr) -> FileAttr {
    FileAttr {
        ino: INodeNo(attr.ino),
        size: attr.size,
        blocks: attr.blocks,
        atime: system_time(attr.atime),
        mtime: system_time(attr.mtime),
        ctime: system_time(attr.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(attr.kind),
        // Both conversions keep every value that Linux can have: 12 bits of mode, 32 bits of device number.
        perm: u16::try_from(attr.mode & 0o7777).unwrap_or(0),
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: u32::try_from(attr.rdev).unwrap_or(0),
        blksize: REQUEST_BYTES_MAX,
        flags: 0,
    }
}

fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
    }
}

fn kind_of(mode: u32) -> Option<FileKind> {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::RegularFile => Some(FileKind::Regular),
        rustix::fs::FileType::Fifo => Some(FileKind::Fifo),
        rustix::fs::FileType::Socket => Some(FileKind::Socket),
        rustix::fs::FileType::CharacterDevice => Some(FileKind::CharDevice),
        rustix::fs::FileType::BlockDevice => Some(FileKind::BlockDevice),
        _ => None,
    }
}

fn system_time(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 { UNIX_EPOCH - seconds } else { UNIX_EPOCH + seconds };
    whole + Duration::from_nanos(u64::from(time.nanos))
}

fn time_or_now(time: TimeOrNow) -> Time {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => {
            Time { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() }
        }
        Err(before) => {
            // Before 1970: whole seconds round down, so that nanoseconds count forward.
            let before = before.duration();
            let (seconds, nanos) =
                (i64::try_from(before.as_secs()).unwrap_or(i64::MAX), before.subsec_nanos());
            match nanos {
                0 => Time { seconds: -seconds, nanos: 0 },
                _ => Time { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_survive_both_ways() {
        for time in [
            Time { seconds: -1, nanos: 250_000_000 },
            Time { seconds: -7, nanos: 0 },
            Time { seconds: 0, nanos: 1 },
            Time { seconds: 1_700_000_000, nanos: 999_999_999 },
        ] {
            assert_eq!(time_or_now(TimeOrNow::SpecificTime(system_time(time))), time);
        }
    }
}
