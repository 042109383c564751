//! The harness of the end-to-end tests: the real processes, real mounts, real programs, in a folder of their own.
//!
//! **Invariant:** nothing here touches a state folder, a process or a mount that the test did not start itself;
//! whatever a test started is ended when its [`cluster::Cluster`] is dropped, also when the test failed.

pub mod attackers;
pub mod cluster;
pub mod datawarp;
pub mod disk;
pub mod gate;
pub mod hosts;
pub mod injection;
pub mod local_node;
pub mod page;
pub mod pages;
pub mod processes;
#[cfg(test)]
mod promises;
pub mod random;
pub mod runner;
pub mod sbatch;
pub mod sharing;
pub mod site;
pub mod star_catalogue;
pub mod tree;
pub mod writers;
pub mod xattr;
