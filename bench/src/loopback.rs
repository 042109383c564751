//! A file system that does nothing but pass the kernel's requests on to a folder, on the same `fuse` crate as ours:
//! what FUSE itself costs.
//!
//! As many threads, the same capabilities, direct I/O and caching of names and attributes as `crates/mount`; no ledger,
//! no passthrough, no wire. Only what the benchmark's work asks for is there: the rest is ENOSYS. It runs in a process
//! of its own, which is this program again.

mod inodes;
mod server;

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use fuse::abi::capability;
use fuse::mount::Options;
use fuse::session::{Session, Wanted, negotiate};

use inodes::Inodes;
use server::Server;

use crate::mount_process::{MOUNTED, MountProcess};

/// As `crates/mount` has them.
const THREADS: usize = 8;
const REQUEST_BYTES_MAX: u32 = 1 << 20;
const EXCLUSIVE_CACHE: Duration = Duration::from_secs(60);
const CAPABILITIES: u64 = capability::ASYNC_READ
    | capability::BIG_WRITES
    | capability::MAX_PAGES
    | capability::DIRECT_IO_ALLOW_MMAP
    | capability::HANDLE_KILLPRIV_V2
    | capability::PARALLEL_DIROPS
    | capability::ASYNC_DIO
    | capability::CACHE_SYMLINKS
    | capability::HAS_RESEND;

/// Whether others may change the namespace, as `MountSpec::exclusive` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody else: the kernel may cache names and attributes.
    Exclusive,
    /// Others may: the kernel asks for everything, and tells of each close.
    Shared,
}

/// Mounts `backing` at `mountpoint`, served by a process of its own.
pub fn mount(backing: &Path, mountpoint: &Path, sharing: Sharing) -> Result<MountProcess> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("loopback")
        .args([backing, mountpoint])
        .args((sharing == Sharing::Shared).then_some("--shared"));
    MountProcess::start(command, mountpoint)
}

/// What the process does: serves until it is unmounted.
pub fn serve(backing: &Path, mountpoint: &Path, sharing: Sharing) -> Result<()> {
    let privileged = rustix::process::geteuid().is_root();
    let options = Options {
        name: "bench-loopback",
        kind: "bench",
        allow_other: privileged,
        max_read: REQUEST_BYTES_MAX,
    };
    let inodes = Inodes::open(backing).with_context(|| format!("open {}", backing.display()))?;
    let device = fuse::mount::mount(mountpoint, &options)
        .with_context(|| format!("mount at {}", mountpoint.display()))?;
    let (cache_for, capabilities) = match sharing {
        Sharing::Exclusive => (EXCLUSIVE_CACHE, CAPABILITIES),
        Sharing::Shared => (Duration::ZERO, CAPABILITIES | capability::POSIX_LOCKS | capability::FLOCK_LOCKS),
    };
    let wanted = Wanted { capabilities, max_write: REQUEST_BYTES_MAX, max_readahead: REQUEST_BYTES_MAX };
    let negotiated = negotiate(&device, &wanted)?;
    let session = Session::serve(&device, &negotiated, Server::new(inodes, cache_for), THREADS)?;
    let mut out = std::io::stdout();
    writeln!(out, "{MOUNTED}")?;
    out.flush()?;
    Ok(session.join()?)
}
