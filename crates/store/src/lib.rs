//! The storage role: fragments on disk (objects, metadata shard, volumes), and the server of the data path.
//!
//! **Invariant:** what was answered survives `kill -9` of this process; what `fsync` answered survives a power loss.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

mod alone;
mod copies;
mod descriptors;
mod doubt;
mod errno;
mod extents;
mod filling;
mod formats;
mod fragment;
#[cfg(fuzzing)]
pub mod fuzzing;
pub mod image;
mod integrity;
mod link;
mod log_folder;
mod measure;
mod mirror;
mod objects;
mod peers;
mod replica;
#[cfg(test)]
mod schedules;
mod scrub;
mod seldom;
mod serve;
mod server;
mod shard;
mod sync;
mod terms;
mod verifier;

pub use scrub::sealer::seal_after;
pub use server::{OpenError, RunMover, Server};
