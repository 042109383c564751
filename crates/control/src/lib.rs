//! The control service: pools, instances, sessions and the life of a job. It is never in the data path.
//!
//! ```text
//! requests/    one file per group of wire::control's requests
//! lifecycle/   one file per life-cycle function; each can be called again after any crash
//! turns.rs     one function of a token at a time
//! state/       one file per table of the database
//! site.rs      what the life-cycle asks of the machine; local_site.rs and local_nodes.rs do it
//! script.rs    from a script to a plan
//! ```
//!
//! **Invariants:** every function is idempotent. What a restart needs is in the database before it is acted on.

pub mod control;
mod lifecycle;
mod local_nodes;
mod local_site;
mod pool;
mod requests;
mod script;
pub mod service;
mod site;
mod state;
mod status;
mod turns;

#[cfg(test)]
mod memory_site;
