//! What the process of each service shares: how it begins, logging, the state folder, starting other processes, locks that one process
//! holds, signals, errors as HTTP replies, configuration files, metrics, and HTTP with JSON bodies over unix sockets and TCP.
//!
//! **Invariant:** nothing here knows what a session, an instance or a fragment is.

pub mod begin;
pub mod config;
pub mod descriptors;
pub mod error;
pub mod http;
pub mod lock;
pub mod logging;
pub mod metrics;
pub mod munge;
pub mod signal;
pub mod spawn;
pub mod state;
