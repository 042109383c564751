//! HTTP/1.1 with JSON bodies over a unix socket: the client, and the server that a service's routes run on.
//!
//! Both ends believe only the kernel: a server answers its own user and root, which it knows by `SO_PEERCRED`.

mod client;
mod server;

pub use client::{CallError, Client};
pub use server::{BindError, Body, SOCKET_PATH_MAX, bind, bind_std, check_socket_path, serve};
