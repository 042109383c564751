//! A namespace as a mounted file system.
//!
//! [`kernel`] translates between the `fuse` crate and the client; [`view`] is what of the client's operations is
//! another one in a mount. A process of a mount may die: [`ledger`] and [`handover`]
//! have what its successor needs to go on under the application's open files. [`renewing`] hears of another key.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

pub mod behind;
pub mod demotion;
pub mod farewell;
pub mod handover;
pub mod kernel;
pub mod leaving;
pub mod ledger;
pub mod renewing;
mod usage;
pub mod view;
