//! The node service: one process on a machine that stores fragments, mounts namespaces, or both.
//!
//! ```text
//! node.rs     what requests work on: the roles; it imports neither requests nor service.rs, the process
//! config.rs   how a node is run; registration.rs says to control that it is there
//! requests/   one file per group of wire::node's requests
//! storage.rs  the storage role: fragments, served by the store crate
//! mounts/     the compute role: one supervising task per forebay-mount process
//! stages/     one supervising task per forebay-stage process
//! local/      private volumes on this node's flash, and their drainers
//! keyed_locks.rs  one call for a mount, stage or volume after the other
//! ```
//!
//! **Invariants:** whatever a restart needs is in the node's folder before it is acted on. Mount processes outlive the
//! node; stage workers do not, and go on from their journal. A request that was begun is done to its end, whoever still
//! waits for it, and what is to be removed is known by its id until nothing of it is left.

pub mod config;
mod error;
mod folder;
mod keep;
mod keyed_locks;
mod local;
mod mount_table;
mod mounts;
mod mover;
mod node;
mod process;
mod registration;
mod requests;
pub mod service;
mod stages;
mod storage;
