//! What the process of each service shares: how it begins and who attends it, logging, starting other processes, locks
//! that one process holds, signals, configuration files and their checks, errors that people read, and calls of other
//! services.
//!
//! **Invariant:** nothing here knows what a session, an instance or a fragment is, and nothing listens.

pub mod attended;
pub mod begin;
pub mod check;
pub mod client;
pub mod config;
pub mod descriptors;
pub mod error;
pub mod groups;
pub mod lock;
pub mod logging;
pub mod signal;
pub mod spawn;
pub mod usage;
