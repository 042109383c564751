//! Requests and answers with grants and without.

use super::{InodeReply, Reply, Request};
use crate::data::credential::Grant;

impl Reply {
    /// The inode that it tells of.
    pub fn inode(&self) -> Option<&InodeReply> {
        match self {
            Reply::Inode(inode) | Reply::Made { inode, .. } | Reply::Granted { inode, .. } => Some(inode),
            _ => None,
        }
    }

    /// The same without a grant: what every other client is answered.
    #[must_use]
    pub fn without_grant(self) -> Reply {
        match self {
            Reply::Granted { inode, parent: Some(parent), .. } => Reply::Made { inode, parent },
            Reply::Granted { inode, parent: None, .. } => Reply::Inode(inode),
            reply => reply,
        }
    }

    /// The same with a grant, of an answer that tells of an inode.
    #[must_use]
    pub fn with_grant(self, give: impl FnOnce(&InodeReply) -> Grant) -> Reply {
        match self {
            Reply::Made { inode, parent } => {
                Reply::Granted { grant: give(&inode), inode, parent: Some(parent) }
            }
            Reply::Inode(inode) => Reply::Granted { grant: give(&inode), inode, parent: None },
            reply => reply,
        }
    }
}

impl Request {
    /// Reads what [`Request::Granted`] carries.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        postcard::from_bytes(bytes).ok()
    }
}
