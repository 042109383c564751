//! How the services are called: where one listens, HTTP, MUNGE credentials, why a call has no result; and which buffer
//! a path is in. What is to be said in a call is in `wire`.
//!
//! `control` makes calls of the control service for programs that ask and end, libdatawarp's callers among them; the
//! services themselves make theirs with `daemon::client`, the same requests and replies on tokio.
//!
//! **Invariant:** no threads, no runtime, nothing printed: it is linked into programs that are not ours.

pub mod binding;
mod call;
pub mod control;
pub mod endpoint;
pub mod http;
pub mod mounted;
pub mod munge;
pub mod proof;

pub use call::CallError;
