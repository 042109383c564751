//! Transfers: what is copied between the PFS and buffers, why and when. `crates/stage` does the copying, at a node.
//!
//! ```text
//! triggers                                  one of each below
//! script.rs         data_in, data_out  --+                                          unmade.rs: what is not owed
//! on_demand.rs      as many at once   ---+--> specification.rs --> runner.rs --> the node's forebay-stage
//! while_running.rs  passes            ---+      node, StageSpec      start, follow, note, stop
//! job_end.rs        what waits for it: into the line of on_demand.rs
//! asked.rs          what programs and people ask, over paths.rs, pieces.rs and place.rs; buffer.rs of a buffer itself
//! ```
//!
//! **Invariant:** what was accepted is in the database; a restart of control goes on with it.

pub(crate) mod asked;
pub(crate) mod buffer;
pub(crate) mod job_end;
pub(crate) mod on_demand;
mod paths;
mod pieces;
mod place;
mod runner;
pub(crate) mod running;
pub(crate) mod script;
mod specification;
mod unmade;
pub(crate) mod while_running;

pub(crate) use runner::discard;
