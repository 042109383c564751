//! HTTP/1.1 with JSON bodies over a unix socket or TCP: the client, and the server that a service's routes run on.
//!
//! **Invariant:** every request that reaches a route has a [`Caller`]: the kernel's word (`SO_PEERCRED`) on a unix socket,
//! MUNGE's over TCP.

mod client;
mod identity;
mod server;

pub use client::{CallError, Client};
pub use identity::Caller;
pub use server::{
    BindError, Body, Door, OpenTo, SOCKET_PATH_MAX, bind, bind_std, bind_tcp, check_socket_path, serve,
    serve_to_all,
};
