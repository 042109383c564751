//! What each request is: who may ask it, and what it changes as far as a power loss takes it back.

use model::Ino;

use super::Request;

/// Who asks for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// The instance's own nodes alone.
    Node,
    /// Every client.
    Client,
    /// A client that has the file open, whose object it reads or (`write`) changes. One that works for a user needs a
    /// grant.
    Opener {
        /// The file.
        ino: Ino,
        /// For writing.
        write: bool,
    },
}

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
    /// Who may ask it.
    pub fn asker(&self) -> Asker {
        self.class().0
    }

    /// What it changes, when it is answered with success. Of what is in a `Granted` the client asks before. Destroying
    /// what has no name is begun again by the home shard's log.
    pub fn changes(&self) -> Change {
        self.class().1
    }

    fn class(&self) -> (Asker, Change) {
        use Asker::{Client, Node};
        use Change::{Metadata, MetadataAndObjects, None, Object};
        let opener = |ino: &Ino, write| Asker::Opener { ino: *ino, write };
        match self {
            Request::Read { ino, .. } | Request::NextData { ino, .. } => (opener(ino, false), None),
            // A descriptor can be written to.
            Request::OpenObject { ino } => (opener(ino, true), None),
            Request::Write { ino, .. }
            | Request::WriteExtents { ino, .. }
            | Request::Allocate { ino, .. } => (opener(ino, true), Object(*ino)),
            Request::SetAttr { ino, set } if set.size.is_some() => (Client, MetadataAndObjects(*ino)),
            Request::SetAttr { .. } | Request::Create { .. } | Request::Make { .. } => (Client, Metadata),
            Request::Link { .. } | Request::Unlink { .. } | Request::Rmdir { .. } => (Client, Metadata),
            Request::Rename { .. } | Request::Open { write: true, .. } => (Client, Metadata),
            Request::SetXattr { .. } | Request::RemoveXattr { .. } => (Client, Metadata),
            Request::ReserveEnd { .. } => (Client, Metadata),
            // After a power loss the home asks the fragments how long files are, or doubts all sizes.
            Request::Close { .. } | Request::Settle { .. } | Request::Doubt { .. } => (Client, None),
            Request::Lookup { .. } | Request::GetAttr { .. } | Request::ReadDir { .. } => (Client, None),
            Request::ReadLink { .. } | Request::GetXattr { .. } | Request::ListXattr { .. } => (Client, None),
            Request::Open { .. } | Request::Reclaim { .. } | Request::IsWritten { .. } => (Client, None),
            Request::Sync { .. } | Request::SyncMany { .. } | Request::SyncMetadata => (Client, None),
            Request::Squashed { .. } => (Client, None),
            Request::Measure { .. } | Request::ListUnverified { .. } | Request::Losses(_) => (Client, None),
            Request::TestLock { .. } | Request::SetLock { .. } => (Client, None),
            Request::ReleaseLocks { .. } | Request::ReclaimLocks { .. } => (Client, None),
            Request::AwaitDestroyed | Request::Usage | Request::Verifier | Request::Ping => (Client, None),
            Request::Goodbye | Request::Fence | Request::StartMover => (Client, None),
            Request::Resize { ino, .. } => (Node, Object(*ino)),
            Request::Destroy { .. } | Request::DestroyForGood { .. } => (Node, None),
            Request::ListObjects { .. } | Request::ListMeant { .. } => (Node, None),
            Request::BeginCopy | Request::AppendCopy { .. } | Request::SyncCopy { .. } => (Node, None),
            Request::FindCopy | Request::ReadCopy { .. } | Request::FindMeeting => (Node, None),
            Request::BeginMirror { .. } | Request::NoteMirror { .. } | Request::FindMirror => (Node, None),
            Request::NoteMeeting { .. } | Request::DescribeMirrored { .. } => (Node, None),
            // In another; what is in one has a class of its own.
            Request::Granted { .. } => (Node, None),
        }
    }
}
