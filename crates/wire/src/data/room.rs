//! How much metadata a buffer has: what a home shard says beside [`super::Reply::Usage`].

use serde::{Deserialize, Serialize};

use super::Request;
use super::connection::encode;
use super::message::FEATURES;

/// An extended attribute of [`FEATURES`], which is no inode's number: [`MetadataRoom`]. Homes that do not know the
/// question say ESTALE.
pub const ROOM: &[u8] = b"metadata";

/// The metadata that has its home beside one shard's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadataRoom {
    /// Bytes that there are.
    pub used: u64,
    /// So many more files with names of usual length may be made.
    pub files: u64,
}

impl MetadataRoom {
    /// What asks for it.
    pub fn question() -> Request {
        Request::GetXattr { ino: FEATURES, name: ROOM.to_vec() }
    }

    /// The answer's bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        encode(&self)
    }

    /// `None`: it is none.
    pub fn from_bytes(bytes: &[u8]) -> Option<MetadataRoom> {
        postcard::from_bytes(bytes).ok()
    }
}
