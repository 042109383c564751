//! File operations on a namespace: which fragment holds what, connections that come back, and errors as errnos.
//!
//! Knows nothing of FUSE: the mount and the stage workers use the same calls. Every method blocks; a storage node that
//! does not answer is tried again for the target's grace period, and the call then fails with EIO.
//!
//! **Invariant:** no bytes and no names are kept back. What [`Contents::write`] returned for has been answered by the
//! storage nodes.

#![expect(unreachable_pub, reason = "its items are older than the lint; what is touched says `pub(crate)`")]

mod aging;
mod closer;
mod closing;
mod commits;
mod coverage;
mod data;
mod extents;
mod failures;
mod files;
mod handed;
mod known;
mod listing;
mod locks;
mod losses;
mod many;
mod measure;
mod names;
mod nodes;
mod operations;
mod periodic;
#[cfg(test)]
mod schedules;
mod sharing;
mod sync;
mod syncing;
mod watch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName, SessionId};
pub use rustix::io::Errno;
use wire::data::hello::HelloError;
use wire::data::message::{ClosedHandle, InodeReply, LossRequest};
pub use wire::data::room::MetadataRoom;
pub use wire::data::{Attr, Creator, DirEntry, FileKind, FileLock, LockKind, ROOT, SetAttr, Time};
use wire::data::{Credential, Reply, Request};
use wire::node::NamespaceTarget;

use closer::Closer;
pub use commits::{Memory, Remembered};
pub use failures::Failures;
use files::Files;
pub use files::Held;
pub use handed::Handed;
use known::Known;
pub use listing::Listed;
use nodes::farewell::LastWords;
pub use nodes::lives::Since;
use nodes::{Ask, Nodes};
pub use operations::{Contents, LostByDisk, Names, Node, Operations, RequestId, Survey};
pub use sharing::{Opener, Sharing, Way};

/// The result of a file operation.
pub type Result<T> = std::result::Result<T, Errno>;

/// Why a namespace cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The target has no credential.
    #[error("there is no credential for instance {instance}")]
    Credential {
        /// The instance.
        instance: InstanceId,
    },
    /// No random numbers for a session id.
    #[error("cannot draw a session id: {0}")]
    Random(getrandom::Error),
    /// The home shard cannot be reached, or turned us away.
    #[error("connect to storage node {node} at {address}")]
    Node {
        /// Its name.
        node: NodeName,
        /// Its address.
        address: String,
        /// Why.
        source: HelloError,
    },
}

/// How full a namespace's instance is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that fit.
    pub capacity: u64,
    /// Bytes in use.
    pub used: u64,
    /// Inodes of this namespace.
    pub inodes: u64,
    /// Its metadata, where the home says so.
    pub metadata: Option<MetadataRoom>,
}

/// Set in the ids that a client draws itself. The rest starts at random: a client that goes on with the session of
/// another must not use its ids again.
const OWN_IDS: u64 = 1 << 63;

/// A client of one namespace.
pub struct Client {
    layout: Layout,
    home: FragmentIndex,
    nodes: Nodes,
    /// Where closes are held.
    closer: Option<Arc<Closer>>,
    known: Arc<Known>,
    next_id: AtomicU64,
    /// Held while the home shard is told of losses.
    doubting: Mutex<()>,
    squashes_root: bool,
}

impl Client {
    /// Connects to the namespace's home shard; the other nodes are connected when they are needed.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(target: &NamespaceTarget) -> std::result::Result<Client, ConnectError> {
        let mut session = [0; 16];
        getrandom::fill(&mut session).map_err(ConnectError::Random)?;
        let nodes = Nodes::new(target, credential_of(target)?, session.into(), Remembered::default());
        let client = Client::over(target, nodes)?;
        client.nodes.check(target.home).map_err(|source| {
            let node = target.nodes.get(target.home.place());
            ConnectError::Node {
                node: node.map_or_else(|| NodeName::unchecked("?"), |node| node.node.clone()),
                address: node.map_or_else(|| "?".into(), |node| node.tcp.clone()),
                source,
            }
        })?;
        Ok(client)
    }

    /// Goes on with the session of a client whose process died, which held `held` and remembered what it had written.
    /// Connects when it is first used.
    ///
    /// # Errors
    /// [`ConnectError`], but not of a node.
    pub fn resume(
        target: &NamespaceTarget,
        session: SessionId,
        held: Held,
        remembered: Remembered,
    ) -> std::result::Result<Client, ConnectError> {
        Client::over(target, Nodes::resume(target, credential_of(target)?, session, held, remembered))
    }

    fn over(target: &NamespaceTarget, nodes: Nodes) -> std::result::Result<Client, ConnectError> {
        let mut first = [0; 8];
        getrandom::fill(&mut first).map_err(ConnectError::Random)?;
        Ok(Client {
            layout: target.layout,
            home: target.home,
            nodes,
            closer: None,
            known: Arc::new(Known::new(Sharing::Shared)),
            next_id: AtomicU64::new(OWN_IDS | u64::from_le_bytes(first) >> 2),
            doubting: Mutex::default(),
            squashes_root: target.credential.as_ref().is_some_and(Credential::squashes_root),
        })
    }

    /// What the storage nodes know this client by; a successor needs it.
    pub fn session(&self) -> SessionId {
        self.nodes.session()
    }

    /// How files are spread.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Whether root of the mount that this client is for has the rights of nobody.
    pub fn squashes_root(&self) -> bool {
        self.squashes_root
    }

    /// Asks the home shard.
    fn home(&self, request: &Request) -> Result<Reply> {
        self.ask_home(self.id(), request)
    }

    fn ask(&self, fragment: FragmentIndex, request: &Request, payload: &[u8]) -> Result<Reply> {
        self.ask_as(self.id(), fragment, request, payload)
    }

    fn ask_as(&self, id: u64, fragment: FragmentIndex, request: &Request, payload: &[u8]) -> Result<Reply> {
        self.nodes.call(fragment, id, request, payload, &mut []).map(|(reply, _)| reply)
    }

    /// Asks several fragments at once; the first error counts.
    fn ask_each(&self, requests: impl Iterator<Item = (FragmentIndex, Request)>) -> Result<Vec<Reply>> {
        self.answers(requests).into_iter().collect()
    }

    fn answers(&self, requests: impl Iterator<Item = (FragmentIndex, Request)>) -> Vec<Result<Reply>> {
        let ask = |(fragment, request)| Ask { fragment, id: self.id(), request, payload: &[], into: &mut [] };
        let mut asks: Vec<Ask<'_>> = requests.map(ask).collect();
        let answers = self.nodes.exchange(&mut asks);
        answers.into_iter().map(|answer| answer.map(|(reply, _)| reply)).collect()
    }

    fn id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    fn files(&self) -> std::sync::MutexGuard<'_, Files> {
        self.nodes.files()
    }
}

impl Client {
    /// Ends the session: what it had open is closed, and whatever is asked from now on fails with ENOTCONN. A client
    /// that is dropped does the same; this is for one that others still hold.
    ///
    /// Best effort, within a moment: a home shard that does not hear it ends the session after its grace period.
    pub fn leave(&self) {
        self.closer.iter().for_each(|closer| closer.end());
        if !self.nodes.end() {
            return;
        }
        let has_settled = self.nodes.has_settled();
        let handles = self.files().take_held();
        self.nodes.farewell(self.home, || self.last_words(&handles, has_settled));
    }

    /// For the home shard, once it is known whether it takes part in losses.
    fn last_words(&self, held: &[ClosedHandle], has_settled: bool) -> LastWords {
        let losses = self.nodes.commits().last_words().into_iter().map(Request::Losses);
        let confirmed = self.nodes.leaves_nothing().then_some(LossRequest::Confirmed { again: false });
        let closed = Request::Close { handles: held.to_vec() };
        let closed = std::iter::once(closed).chain(confirmed.map(Request::Losses));
        // Last: it may take a disk's time, and the session is over before. Of one whose end a power loss takes back
        // nobody would know what it left.
        let goodbye = [Request::Goodbye, Request::SyncMetadata];
        // Without it the home goes by what it knows of the session, after the grace period: this client does not know
        // what becomes of a change that is under way.
        let end = closed.chain(goodbye.into_iter().filter(|_| has_settled));
        let numbered = |request| (self.id(), request);
        LastWords { losses: losses.map(numbered).collect(), end: end.map(numbered).collect() }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.leave();
    }
}

fn inode_of(reply: Reply) -> Result<InodeReply> {
    match reply {
        Reply::Inode(inode) => Ok(inode),
        _ => Err(Errno::PROTO),
    }
}

fn credential_of(target: &NamespaceTarget) -> std::result::Result<Credential, ConnectError> {
    target.credential.clone().ok_or_else(|| ConnectError::Credential { instance: target.instance.clone() })
}
