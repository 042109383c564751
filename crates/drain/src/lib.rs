//! The drainer: what is closed below a folder on a node's flash arrives, verified, below a folder on the PFS, while the
//! program that wrote it goes on.
//!
//! ```text
//! watch (inotify) --\
//!                    +-> table: what is to be copied, and when --> worker (copy -> stage::single) --> committer
//! scan (rescans)  --/         ^                                                                      |
//!                             +------------ failed, changed meanwhile -------------------- ledger, logs
//! rendezvous: requests and answers on the PFS, for all nodes of a job     socket: of this node
//! ```
//!
//! `docs/NODE-LOCAL.md` says what is promised to users.
//!
//! **Invariant:** a file is copied only while nobody has it open for writing, and is in the ledger only with the
//! [`generation::Generation`] whose contents were verified on the PFS. So comparing the folder with the ledger finds
//! all that is owed, whatever notices were lost: a rescan is the truth, notices only make it quick.

mod alone;
mod attend;
pub mod bound;
mod burst;
mod claims;
mod closed;
pub mod commit;
mod committer;
mod copy;
mod deadline;
mod divert;
pub mod drain;
mod flash;
pub mod folder;
mod generation;
mod intents;
mod lateness;
mod leave;
mod ledger;
mod logs;
mod lost;
mod mounted;
mod moved;
pub mod namesake;
mod outside;
pub mod overlap;
mod placed;
mod rate;
pub mod receipt;
pub mod rendezvous;
mod revisit;
pub mod settings;
mod settle;
mod socket;
mod source;
pub mod start;
mod state;
pub mod status;
mod suffix;
mod table;
mod taken;
mod target;
mod top;
mod undone;
pub mod unstarted;
pub mod wait;
mod watch;
mod way;

pub use socket::{Order, order, settle};
