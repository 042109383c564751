//! The data path's binary protocol between a client (a mount, a stage worker, another storage node) and a storage node.
//!
//! A connection begins with a handshake ([`hello`]); then it carries frames ([`connection`]): one request, one reply,
//! in turn. A client that wants more in flight opens more connections.
//!
//! ```text
//! frame := meta_len:u32le payload_len:u32le id:u64le meta[meta_len] payload[payload_len]
//! meta  := a Request or a Reply ([`message`]), in postcard encoding
//! ```
//!
//! `id` is chosen by the client, grows, and is never used twice in one session: a request that is sent again after a
//! lost connection has its first `id`, so that a storage node can tell that it has done it already.

pub mod connection;
pub mod credential;
pub mod dial;
mod encrypted;
pub mod handed_over;
pub mod hello;
mod inbox;
mod key;
pub mod keys;
pub mod member;
pub mod message;
pub mod moved;
pub mod outage;
pub mod renewed;
pub mod room;
pub mod shown;
pub mod stream;
pub mod types;

pub use connection::{Connection, Frame};
pub use credential::Credential;
pub use message::{Reply, Request};
use model::Ino;
pub use stream::Stream;
pub use types::{Attr, Creator, DirEntry, FileKind, FileLock, LockKind, SetAttr, Time};

/// The inode number of a namespace's root folder.
pub const ROOT: Ino = Ino(1);

/// The longest payload of one frame, bytes: the largest read or write request that a Linux kernel sends through FUSE
/// with default settings.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// The longest encoded message, bytes. The largest are a page of directory entries, and what a client has open when it
/// tells a shard that was restarted: some 70,000 files.
pub const META_BYTES_MAX: usize = 1 << 20;

/// The longest file name, bytes (`NAME_MAX` of Linux).
pub const NAME_BYTES_MAX: usize = 255;

/// The longest symbolic link, bytes (`PATH_MAX` less the closing NUL).
pub const SYMLINK_BYTES_MAX: usize = 4095;

/// The longest value of an extended attribute, bytes (`XATTR_SIZE_MAX` of Linux).
pub const XATTR_BYTES_MAX: usize = 65536;
