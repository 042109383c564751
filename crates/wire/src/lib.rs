//! Everything that crosses a process boundary, in one place: the JSON types of the control service ([`control`]) and of
//! the node service ([`node`]), the binary protocol of the data path ([`data`]), and what
//! the processes of one stage say to each other ([`mover`]).
//!
//! **Invariant:** a wire type is never written to disk as it is, and a disk type is never sent: both evolve, on
//! different days. (JSON specifications that a service keeps for its own restart are the exception, and say so.)

pub mod advice;
pub mod control;
pub mod data;
mod error;
mod error_code;
pub mod hex;
pub mod mover;
pub mod node;
mod owner;
mod stages;
pub mod ticket;

pub use error::without_numbers;
