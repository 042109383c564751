//! A service's side of HTTP/1.1 with JSON bodies over a unix socket or TCP: what its routes run on, who calls, refusals
//! as replies, and metrics.
//!
//! **Invariant:** every request that reaches a route has a [`Caller`]: the kernel's word (`SO_PEERCRED`) on a unix
//! socket, MUNGE's over TCP.

mod caller;
mod listen;
pub mod metrics;
mod refusal;

pub use caller::Caller;
pub use listen::{BindError, Body, Listener, OpenTo, bind, bind_std, bind_tcp, serve, serve_to_all};
pub use refusal::Refusal;
