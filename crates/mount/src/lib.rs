//! A namespace as a mounted file system.
//!
//! [`filesystem`] says what the kernel can ask, in our own types; [`namespace`] answers with the client; [`kernel`]
//! translates between [`filesystem`] and the `fuse` crate, which nothing else here knows.

pub mod filesystem;
pub mod kernel;
pub mod namespace;
