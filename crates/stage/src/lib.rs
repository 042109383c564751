//! Staging: copies between the PFS and a buffer that are complete and verified, or failed and say so.
//!
//! ```text
//! spec -> plan --queue--> batch, entry (workers) -> regular -> resume, transfer  journal: what need not be done again
//!           |                             -> special -> metadata          monitor: counters, failures, cancellation
//!           +-> folder (finished when its last entry is)
//!                 the sides as a Source and a Target: Pfs, Buffer over a client
//! single: one entry at a time, for who knows what changed (crates/drain)
//! ```
//!
//! `docs/STAGING.md` says what is promised to users.
//!
//! **Invariant:** `complete` is said only of a stage whose every byte was read back from the target and compared.

pub mod at;
mod batch;
mod before;
mod blocks;
pub mod buffer;
mod checksum;
mod content;
mod context;
mod copier;
mod differing;
mod drained;
pub mod engine;
mod entry;
mod eta;
pub mod fault;
mod folder;
pub mod identity;
pub mod journal;
mod lease;
mod links;
mod lost;
mod manifest;
mod metadata;
pub mod monitor;
pub mod mounted;
pub mod mover;
pub mod movers;
mod named;
mod orphans;
pub mod outside;
pub mod pace;
mod part;
pub mod pfs;
mod plan;
mod queue;
mod regular;
pub mod remote;
mod resume;
mod run;
#[cfg(test)]
mod schedules;
pub mod session;
mod shared;
mod sides;
pub mod single;
mod special;
mod stalls;
mod strays;
mod sync;
mod times;
mod transfer;
pub mod tree;
mod unverified;
mod verify;
pub mod version;
mod watched;
mod worker;
