//! The node service: one process on a machine that stores fragments, mounts namespaces, or both.
//!
//! ```text
//! config.rs   the configuration file of a cluster's node; registration.rs says to control that the node is there
//! requests/   one file per group of wire::node's requests
//! storage.rs  the storage role: fragments, served by the store crate
//! mounts/     the compute role: one supervising task per forebay-mount process
//! stages/     one supervising task per forebay-stage process
//! local/      private volumes on this node's flash, and their drainers
//! turns.rs    one call for a mount, stage or volume after the other
//! ```
//!
//! **Invariants:** whatever a restart needs is in the node's folder before it is acted on. Mount processes outlive the
//! node; stage workers do not, and go on from their journal. A request that was begun is done to its end, whoever still
//! waits for it, and what is to be removed is known by its id until nothing of it is left.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

pub mod config;
mod folder;
mod keep;
mod local;
pub mod mount_table;
pub mod mounts;
mod mover;
pub mod process;
mod registration;
pub mod requests;
pub mod service;
pub mod stages;
pub mod storage;
mod turns;
