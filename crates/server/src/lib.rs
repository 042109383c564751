//! A service's side of HTTP/1.1 with JSON bodies over a unix socket or TCP: what its routes run on, who calls, refusals
//! as replies, and metrics.
//!
//! **Invariant:** every request that reaches a route has a [`Caller`]: the kernel's word (`SO_PEERCRED`) on a unix
//! socket, MUNGE's over TCP; and nobody's requests or connections keep others from theirs ([`connections`]).

mod body;
mod caller;
mod connections;
mod listen;
pub mod metrics;
mod refusal;
mod serve;

pub use body::Body;
pub use caller::Caller;
pub use listen::{BindError, Listener, OpenTo, bind, bind_std, bind_tcp, on_tcp};
pub use refusal::Refusal;
pub use serve::{serve, serve_to_all};
