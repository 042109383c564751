//! The kernel's FUSE protocol, version 7, over `/dev/fuse`. Knows nothing of Forebay.
//!
//! ```text
//! mount::mount ──> Device ──> session::negotiate ──> Session::serve(handler)     a new mount
//!          (another process's) Device ──────────────> Session::resume(handler)     a mount whose server died
//! ```
//!
//! A [`session::Session`]'s threads read requests from a [`device::Device`], [`request`] parses them, and a
//! [`session::Handler`] answers each through its [`reply::Reply`], now or later, on any thread.
//!
//! **Invariant:** every request that the kernel waits for is answered once: a [`reply::Reply`] that is dropped says
//! EIO.
//!
//! All threads of a session share one open device, on purpose: requests that were read and not answered belong to the
//! open file that they were read from, and end with it. So whoever else holds that open file (see
//! [`device::Device::send`]) keeps them, and a successor answers them. A device cloned for each thread would take them
//! along.

pub mod abi;
pub mod backing;
pub mod device;
pub mod interrupt;
pub mod listing;
pub mod mount;
pub mod notify;
pub mod reply;
pub mod request;
pub mod session;
pub mod table;
