//! Everything that crosses a process boundary, in one place: the JSON types of the control service ([`control`]) and of
//! the node service ([`node`]), and the binary protocol of the data path ([`data`]).
//!
//! **Invariant:** a wire type is never written to disk as it is, and a disk type is never sent: both evolve, on
//! different days. (JSON specifications that a service keeps for its own restart are the exception, and say so.)

pub mod control;
pub mod data;
pub mod node;
