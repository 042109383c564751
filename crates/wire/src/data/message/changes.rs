//! What requests are about: the object that they touch, and what they change as far as a power loss takes it back.

use model::Ino;

use super::Request;

/// What of a fragment a request changes: what a power loss takes back until a sync confirms it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// The object of this inode.
    Object(Ino),
    /// The home shard's metadata.
    Metadata,
    /// The metadata, and this inode's objects on every fragment that has some.
    MetadataAndObjects(Ino),
}

impl Request {
    /// The object that a request reads or changes (`true`) for a client that has the file open, which needs a grant
    /// where it works for a user.
    pub fn object(&self) -> Option<(Ino, bool)> {
        match self {
            Request::Read { ino, .. } | Request::NextData { ino, .. } => Some((*ino, false)),
            // A descriptor can be written to.
            Request::OpenObject { ino }
            | Request::Write { ino, .. }
            | Request::WriteExtents { ino, .. }
            | Request::Allocate { ino, .. } => Some((*ino, true)),
            _ => None,
        }
    }

    /// What it changes, when it is answered with success. Of what is in a `Granted` the client asks before. Destroying
    /// what has no name is begun again by the home shard's log.
    pub fn changes(&self) -> Change {
        match self {
            Request::Write { ino, .. }
            | Request::WriteExtents { ino, .. }
            | Request::Resize { ino, .. }
            | Request::Allocate { ino, .. } => Change::Object(*ino),
            Request::SetAttr { ino, set } if set.size.is_some() => Change::MetadataAndObjects(*ino),
            Request::SetAttr { .. }
            | Request::Create { .. }
            | Request::Make { .. }
            | Request::Link { .. }
            | Request::Unlink { .. }
            | Request::Rmdir { .. }
            | Request::Rename { .. }
            | Request::Open { write: true, .. }
            | Request::SetXattr { .. }
            | Request::RemoveXattr { .. }
            | Request::ReserveEnd { .. } => Change::Metadata,
            // After a power loss the home asks the fragments how long files are.
            Request::Close { .. }
            | Request::Settle { .. }
            | Request::Destroy { .. }
            | Request::DestroyForGood { .. }
            | Request::Lookup { .. }
            | Request::GetAttr { .. }
            | Request::ReadDir { .. }
            | Request::ReadLink { .. }
            | Request::Open { .. }
            | Request::Reclaim { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. }
            | Request::SyncMetadata
            | Request::AwaitDestroyed
            | Request::Goodbye
            | Request::Read { .. }
            | Request::Sync { .. }
            | Request::Measure { .. }
            | Request::NextData { .. }
            | Request::Usage
            | Request::OpenObject { .. }
            | Request::TestLock { .. }
            | Request::SetLock { .. }
            | Request::ReleaseLocks { .. }
            | Request::ReclaimLocks { .. }
            | Request::Ping
            | Request::Fence
            | Request::StartMover
            | Request::SyncMany { .. }
            | Request::IsWritten { .. }
            | Request::Verifier
            | Request::ListObjects { .. }
            | Request::BeginCopy
            | Request::AppendCopy { .. }
            | Request::SyncCopy { .. }
            | Request::FindCopy
            | Request::ReadCopy { .. }
            | Request::BeginMirror { .. }
            | Request::FindMirror
            | Request::NoteMirror { .. }
            | Request::ListMeant { .. }
            | Request::DescribeMirrored { .. }
            | Request::ListUnverified { .. }
            | Request::FindMeeting
            | Request::NoteMeeting { .. }
            | Request::Granted { .. }
            | Request::Losses(_)
            | Request::Doubt { .. } => Change::None, // A home shard that loses this doubts all sizes.
        }
    }
}
