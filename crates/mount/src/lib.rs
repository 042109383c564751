//! A namespace as a mounted file system.
//!
//! [`filesystem`] says what the kernel can ask, in our own types; [`namespace`] answers with the client; [`kernel`]
//! speaks FUSE through the `fuser` crate. Nothing outside [`kernel`] knows that crate.

pub mod filesystem;
pub mod kernel;
pub mod namespace;
mod passthrough;
