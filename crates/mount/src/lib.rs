//! A namespace as a mounted file system.
//!
//! [`filesystem`] says what the kernel can ask, in our own types; [`namespace`] answers with the client; [`kernel`]
//! translates between [`filesystem`] and the `fuse` crate. A process of a mount may die: [`ledger`] and [`handover`]
//! have what its successor needs to go on under the application's open files.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

pub mod behind;
pub mod demotion;
pub mod farewell;
pub mod filesystem;
pub mod handover;
pub mod kernel;
pub mod leaving;
pub mod ledger;
pub mod namespace;
mod usage;
