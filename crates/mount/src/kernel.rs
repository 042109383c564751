//! FUSE: the kernel's requests, answered by a [`MountView`].
//!
//! Files are opened for direct I/O (each write arrives with exactly its bytes, parallel inside the file's end) or,
//! where the whole file is one local object in a volume, passed through. The kernel's write-back cache is never used:
//! it sends whole pages and so corrupted half of the records that two mounts wrote into one file.

mod adopted;
mod attributes;
mod contents;
mod directories;
mod files;
mod kept_names;
mod locks;
mod losses;
mod names;
mod pages;
mod passthrough;
mod squashed;
mod waiting;
mod write_back;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use client::{Attr, Errno, Names as _, Result};
use disk::mount_table::KIND;
use fuse::abi::{MINOR_EPOCHS, capability};
use fuse::device::Device;
use fuse::mount::Options;
use fuse::notify::Notifier;
use fuse::reply::Reply;
use fuse::request::{Operation, Request};
use fuse::session::{Handler, Negotiated, Session, Wanted, negotiate};

use crate::ledger::Ledger;
use crate::view::MountView;
use contents::Contents;
pub use kept_names::Names;
use kept_names::OLD_KERNELS_CACHE;
use losses::{Losses, Remembering};
use passthrough::Passthrough;
use squashed::Squashed;
use waiting::Waiting;
pub use write_back::WriteBack;

/// Threads that take requests. Each blocks while a storage node works, so more than there are cores.
const THREADS: usize = 8;

/// The largest read or write request: 1 MiB, one stripe. Larger ones won nothing in measurements.
const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// How far the kernel reads ahead of who reads on and on: enough requests to keep the storage nodes busy.
const READ_AHEAD_BYTES: u32 = 4 * REQUEST_BYTES_MAX;

/// What is asked of the kernel; locks and passthrough come on top where they can be had.
const CAPABILITIES: u64 = capability::ASYNC_READ
    | capability::BIG_WRITES
    | capability::MAX_PAGES
    // Without it a shared mapping of a file open for direct I/O is ENODEV.
    | capability::DIRECT_IO_ALLOW_MMAP
    // Without it a file handle is stale as soon as the kernel forgets the inode.
    | capability::EXPORT_SUPPORT
    // Without it the kernel asks for security.capability before every single write.
    | capability::HANDLE_KILLPRIV_V2
    | capability::DO_READDIRPLUS
    | capability::READDIRPLUS_AUTO
    | capability::PARALLEL_DIROPS
    | capability::ASYNC_DIO
    | capability::CACHE_SYMLINKS
    // The kernel obeys access lists, and leaves it to us what is inherited.
    | capability::POSIX_ACL
    | capability::DONT_MASK
    | capability::SETXATTR_EXT
    // Without it a successor cannot go on where a process of this mount died.
    | capability::HAS_RESEND;

/// A mount that is served.
#[derive(Debug)]
pub struct Mounted {
    /// The threads that serve it.
    pub session: Session,
    /// For a successor.
    pub device: Device,
    /// Whether this kernel lets a successor go on with the device.
    pub resumable: bool,
    /// How the kernel forgets names.
    pub names: Names,
    /// What is open in it, and what mappings stored there.
    pub write_back: WriteBack,
}

/// Mounts `namespace` at `mountpoint`, named `name` in the mount table, and serves it in the background. Opens and
/// locks go into the ledger that `ledger` makes.
///
/// # Errors
/// What mounting failed with.
pub fn mount(
    namespace: MountView,
    mountpoint: &Path,
    name: &str,
    ledger: impl FnOnce(Negotiated) -> io::Result<Ledger>,
) -> io::Result<Mounted> {
    let privileged = rustix::process::geteuid().is_root();
    // An ordinary user may not let others in (unless fuse.conf says so), and on one machine nobody else needs to.
    let options = Options { name, kind: KIND, allow_other: privileged, max_read: REQUEST_BYTES_MAX };
    let device = fuse::mount::mount(mountpoint, &options)?;
    let caches = namespace.client().sharing().owns_contents();
    let served = agree(&namespace, &device, privileged).and_then(|negotiated| {
        let ledger = Arc::new(ledger(negotiated)?);
        let kernel = Kernel::new(namespace, &device, &negotiated, ledger);
        let write_back = kernel.write_back();
        let session = Session::serve(&device, &negotiated, Squashed::new(kernel), THREADS)?;
        let names = Names::new(&device, &negotiated);
        if caches && privileged {
            pages::read_ahead(mountpoint, READ_AHEAD_BYTES);
        }
        let resumable = negotiated.has(capability::HAS_RESEND);
        Ok(Mounted { session, device, resumable, names, write_back })
    });
    if served.is_err() {
        // The first error tells more than this one would.
        let _unmounted = fuse::mount::unmount(mountpoint);
    }
    served
}

/// Goes on serving the mount of a process that died: `device`, `negotiated` and `ledger` are that one's.
///
/// # Errors
/// What taking over failed with.
pub fn resume(
    namespace: MountView,
    device: Device,
    negotiated: &Negotiated,
    ledger: Ledger,
) -> io::Result<Mounted> {
    let ledger = Arc::new(ledger);
    let kernel = Kernel::new(namespace, &device, negotiated, ledger);
    let write_back = kernel.write_back();
    let session = Session::resume(&device, negotiated, Squashed::new(kernel), THREADS)?;
    let names = Names::new(&device, negotiated);
    Ok(Mounted { session, device, resumable: true, names, write_back })
}

fn agree(namespace: &MountView, device: &Device, privileged: bool) -> io::Result<Negotiated> {
    let mut capabilities = CAPABILITIES;
    if privileged {
        // Registering a backing file takes CAP_SYS_ADMIN.
        capabilities |= capability::PASSTHROUGH;
    }
    if namespace.client().squashes_root() {
        // What is cached root reads without being judged.
        capabilities &= !capability::CACHE_SYMLINKS;
    }
    if !namespace.client().sharing().owns_contents() {
        capabilities |= capability::POSIX_LOCKS | capability::FLOCK_LOCKS;
        // Others write, too: pages of a mapping are dropped when the file is seen to have changed.
        capabilities |= capability::AUTO_INVAL_DATA;
    }
    let wanted = Wanted { capabilities, max_write: REQUEST_BYTES_MAX, max_readahead: REQUEST_BYTES_MAX };
    let negotiated = negotiate(device, &wanted)?;
    let missing = capabilities & !negotiated.capabilities;
    if missing != 0 {
        tracing::info!(missing = format!("{missing:#x}"), "this kernel's FUSE lacks capabilities");
    }
    Ok(negotiated)
}

/// Answers the kernel.
struct Kernel {
    namespace: Arc<MountView>,
    /// How long the kernel may use names and attributes without asking, at most.
    cache_max: Duration,
    device: Device,
    passthrough: Passthrough,
    contents: Arc<Contents>,
    losses: Arc<Losses>,
    ledger: Arc<Ledger>,
    waiting: Waiting,
}

impl Handler for Kernel {
    fn handle(&self, request: &Request<'_>, reply: Reply) {
        let (ino, id, fs) = (model::Ino::from(request.ino()), names::id_of(request), &self.namespace);
        let client = fs.client();
        match request.operation {
            Operation::Lookup { name } => self.entry(fs.lookup(ino, name), reply),
            Operation::GetAttr => self.attr(fs.getattr(ino), reply),
            Operation::SetAttr(set) => self.set_attr(request, &set, reply),
            Operation::StatFs => self.statfs(reply),

            Operation::MakeNode { arguments, name } => self.make_node(request, &arguments, name, reply),
            Operation::MakeDirectory { arguments, name } => {
                self.make_directory(request, &arguments, name, reply);
            }
            Operation::Symlink { name, target } => self.symlink(request, name, target, reply),
            Operation::ReadLink => bytes(client.readlink(ino), reply),
            Operation::Link { ino: of, name } => self.entry(client.link(id, of.into(), ino, name), reply),
            Operation::Unlink { name } => done(client.unlink(id, ino, name), reply),
            Operation::RemoveDirectory { name } => done(client.rmdir(id, ino, name), reply),
            Operation::Rename { name, new_parent, new_name, flags } => {
                done(self.rename(id, (ino, name), (new_parent.into(), new_name), flags), reply);
            }

            Operation::Open(open) => self.open(request, &open, reply),
            Operation::Create { arguments, name } => self.create(request, &arguments, name, reply),
            Operation::Read(read) => self.contents.read(ino, read, reply),
            Operation::Write { arguments, bytes } => self.contents.write(request, arguments, bytes, reply),
            Operation::Allocate(range) => self.contents.allocate(request, range, reply),
            Operation::Seek(seek) => self.seek(ino, &seek, reply),
            Operation::Fsync(fsync) => {
                self.losses.answer(reply, self.fsync(ino, fsync.fh));
            }
            Operation::Flush(flush) => self.flush(ino, &flush, reply),
            Operation::Release(release) => self.release(request, &release, reply),

            Operation::OpenDirectory => self.open_directory(reply),
            Operation::ReadDirectory(read) => self.read_directory(ino, &read, reply),
            Operation::ReadDirectoryPlus(read) => self.read_directory_plus(ino, &read, reply),
            Operation::FsyncDirectory(fsync) => self.losses.answer(reply, client.sync_metadata_by(fsync.fh)),
            Operation::ReleaseDirectory => reply.done(),

            Operation::GetXattr { name, size } => attributes::xattr(client.getxattr(ino, name), size, reply),
            Operation::SetXattr { name, value, flags, kill_sgid } => {
                let mode = attributes::xattr_mode(flags, kill_sgid);
                done(client.setxattr(id, ino, name, value, mode), reply);
            }
            Operation::ListXattr { size } => attributes::xattr(self.list_xattr(ino), size, reply),
            Operation::RemoveXattr { name } => done(client.removexattr(id, ino, name), reply),

            Operation::TestLock(lock) => self.test_lock(request, &lock, reply),
            Operation::SetLock(lock) => self.lock(request, &lock, false, reply),
            Operation::WaitLock(lock) => self.lock(request, &lock, true, reply),

            // ENOSYS tells the kernel not to ask again.
            Operation::Unknown { .. } => reply.error(Errno::NOSYS),
        }
    }
}

impl Kernel {
    fn new(namespace: MountView, device: &Device, negotiated: &Negotiated, ledger: Arc<Ledger>) -> Kernel {
        let passthrough = Passthrough::new(negotiated.has(capability::PASSTHROUGH));
        let pages = adopted::adopt(&ledger, device, namespace.client(), &passthrough);
        let namespace = Arc::new(namespace);
        let contents = Arc::new(Contents::new(Arc::clone(&namespace), pages, device));
        let losses = Arc::new(Losses::new(&contents, Names::new(device, negotiated)));
        let remembering = Remembering { ledger: Arc::clone(&ledger), losses: losses.clone() };
        namespace.client().remember_in(Arc::new(remembering));
        Kernel {
            namespace,
            cache_max: if negotiated.minor >= MINOR_EPOCHS { Duration::MAX } else { OLD_KERNELS_CACHE },
            device: device.clone(),
            passthrough,
            contents,
            losses,
            ledger,
            waiting: Waiting::new(locks::WAITING_MAX),
        }
    }

    fn write_back(&self) -> WriteBack {
        let (notifier, ledger) = (Notifier::new(&self.device), Arc::clone(&self.ledger));
        WriteBack { notifier, ledger, refused: self.contents.refused.clone() }
    }

    fn cache_for(&self) -> Duration {
        self.namespace.client().sharing().names_kept().min(self.cache_max)
    }

    fn entry(&self, result: Result<Attr>, reply: Reply) {
        match result {
            Ok(attr) => reply.entry(&attributes::entry_out(&attr, self.cache_for())),
            Err(errno) => reply.error(errno),
        }
    }

    fn attr(&self, result: Result<Attr>, reply: Reply) {
        match result {
            Ok(attr) => reply.attr(&attributes::attr_out(&attr, self.cache_for())),
            Err(errno) => reply.error(errno),
        }
    }
}

fn done(result: Result<()>, reply: Reply) {
    match result {
        Ok(()) => reply.done(),
        Err(errno) => reply.error(errno),
    }
}

fn bytes(result: Result<Vec<u8>>, reply: Reply) {
    match result {
        Ok(bytes) => reply.bytes(&bytes),
        Err(errno) => reply.error(errno),
    }
}
