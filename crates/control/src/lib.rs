//! The control service: pools, instances, sessions and the life of a job. It is never in the data path.
//!
//! ```text
//! app.rs       what all of it works on: the database, the site, what runs now; it imports none of the others
//! dispatch.rs  which function a request runs, in the queue of its token
//! requests/    one file per group of wire::control's requests
//! lifecycle/   one file per life-cycle function; each can be called again after any crash
//! transfers/   what is copied between the PFS and buffers, why and when
//! token_queue.rs  one function of a token at a time
//! state/       one file per table of the database
//! site.rs      what the life-cycle asks of the machines: local_*.rs of one, cluster_*.rs of many hosts
//! node_api.rs  what it asks of a node
//! last_words.rs  what nodes said last of their copies, by which a lost one is given up
//! parts.rs     which parts of an instance are served, and why others are not
//! pool/        how much flash there is; a file for each kind: what a buffer of it is, from its script to its end
//! backup.rs    copies of the database
//! rights.rs    who may do what
//! user_queue.rs  one request of a user at a time, at what costs control time
//! script.rs    from a script to a plan
//! ```
//!
//! **Invariants:** every function is idempotent. What a restart needs is in the database before it is acted on.

mod advice;
pub mod app;
mod audit;
pub mod backup;
mod cluster_nodes;
mod cluster_site;
pub mod config;
mod dispatch;
mod last_words;
mod leftovers;
mod lifecycle;
mod local_nodes;
mod local_site;
mod node_api;
mod objects;
mod parts;
mod pool;
mod requests;
mod rights;
mod script;
pub mod service;
mod site;
mod state;
mod status;
mod token_queue;
mod transfers;
mod user_queue;
mod views;

#[cfg(test)]
mod memory_site;
