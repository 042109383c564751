//! The other fragments of the same namespace, as the home shard asks them to resize and to remove objects.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use model::{FragmentIndex, Ino, InstanceId, NodeName};
use rustix::io::Errno;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError};
use wire::data::keys::Keys;
use wire::data::member::Role;
use wire::data::outage::{self, Outage, Verdict};
use wire::data::{Connection, Reply, Request};
use wire::node::{FragmentSpec, StorageAddress};

use crate::link::Place;
use crate::terms::Terms;

const PAUSE: Duration = Duration::from_millis(100);

/// How long to ask a node for its list of objects: it may just have been started again.
const LIST_PATIENCE: Duration = Duration::from_secs(5);

/// How long a fragment may take to answer: whoever waits longer does not know whether it ever will. The next connection
/// fences off what this one asked, so that it is not done later than what is asked then.
const ANSWER_WITHIN: Duration = Duration::from_secs(4);

/// The same for lists, which a disk may have to be searched for.
const LIST_WITHIN: Duration = Duration::from_secs(60);

/// Hears which commit verifier another fragment has.
type Heed = dyn Fn(FragmentIndex, u64) + Send + Sync;

/// Connections to the other fragments.
pub struct Peers {
    own_index: FragmentIndex,
    /// Where the copy of this home's log is.
    copy: Option<Place>,
    instance: InstanceId,
    namespace: u32,
    keys: Keys,
    terms: Arc<Terms>,
    nodes: Vec<Peer>,
    grace: Duration,
    next_id: AtomicU64,
    heed: OnceLock<Box<Heed>>,
}

struct Peer {
    address: StorageAddress,
    /// A connection for changes, one after the other.
    changing: Mutex<Option<Connection>>,
    /// One for lists, losses and syncs, which may take long: no change waits for them, and what they ask need not be
    /// fenced off.
    listing: Mutex<Option<Connection>>,
    outage: Arc<Outage>,
}

impl Peers {
    /// The peers of one namespace; nothing is connected before it is needed.
    pub fn new(spec: &FragmentSpec, namespace: u32, keys: impl Into<Keys>, terms: &Arc<Terms>) -> Peers {
        let (grace, keys) = (Duration::from_millis(spec.grace_ms), keys.into());
        let peer = |address: &StorageAddress| Peer {
            address: address.clone(),
            changing: Mutex::default(),
            listing: Mutex::default(),
            outage: Outage::none(grace),
        };
        Peers {
            own_index: spec.index,
            copy: Place::of(spec, namespace, keys.clone(), terms),
            instance: spec.instance.clone(),
            namespace,
            keys,
            terms: terms.clone(),
            nodes: spec.peers.iter().map(peer).collect(),
            grace,
            next_id: AtomicU64::new(1),
            heed: OnceLock::new(),
        }
    }

    /// The same for a home of which no other node has a copy.
    #[cfg(test)]
    pub fn without_copy(self) -> Peers {
        Peers { copy: None, ..self }
    }

    /// From now on this hears the commit verifier of a fragment whenever a connection to it begins, before the fragment
    /// is asked anything. The first call counts.
    pub fn heed(&self, heed: Box<Heed>) {
        let _set = self.heed.set(heed);
    }

    /// Looks whether a fragment is what it was when it was asked last.
    pub fn look(&self, fragment: FragmentIndex) {
        // One that is away is looked at again.
        let _seen = self.call(fragment, &Request::Verifier, Duration::ZERO);
    }

    /// Where the copy of the home's log is; `None` where the instance has one node.
    pub fn copy(&self) -> Option<&Place> {
        self.copy.as_ref()
    }

    /// This node's own.
    pub fn own(&self) -> FragmentIndex {
        self.own_index
    }

    /// Whether `fragment` is this node's own.
    pub fn is_self(&self, fragment: FragmentIndex) -> bool {
        fragment == self.own_index
    }

    /// The instance's grace period: how long a fragment that does not answer is tried, as by clients.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Sets the length of an object on another fragment.
    ///
    /// # Errors
    /// The fragment's errno; EIO when it did not answer for the grace period.
    pub fn resize(&self, fragment: FragmentIndex, ino: Ino, size: u64) -> Result<(), Errno> {
        self.call(fragment, &Request::Resize { ino, size }, self.grace)
    }

    /// Removes an object on another fragment.
    ///
    /// # Errors
    /// The fragment's errno; EIO when it does not answer (once: the caller has time).
    pub fn destroy(&self, fragment: FragmentIndex, ino: Ino) -> Result<(), Errno> {
        self.call(fragment, &Request::Destroy { ino }, Duration::ZERO)
    }

    /// Removes objects on another fragment that were removed before, so that they stay away.
    ///
    /// # Errors
    /// As [`Peers::destroy`].
    pub fn destroy_for_good(&self, fragment: FragmentIndex, inos: Vec<Ino>) -> Result<(), Errno> {
        self.call(fragment, &Request::DestroyForGood { inos }, Duration::ZERO)
    }

    /// Objects of another fragment with numbers above `after`, in order, with their lengths; empty at the end.
    ///
    /// # Errors
    /// The fragment's errno; EIO when it does not answer for some seconds.
    pub fn objects(&self, fragment: FragmentIndex, after: Ino) -> Result<Vec<(Ino, u64)>, Errno> {
        match self.call_for(fragment, &Request::ListObjects { after }, LIST_PATIENCE)? {
            Reply::Objects(objects) => Ok(objects),
            _ => Err(Errno::PROTO),
        }
    }

    /// Objects that this fragment should have with numbers above `after`, as the home knows; empty at the end.
    ///
    /// # Errors
    /// As [`Peers::objects`].
    pub fn meant(&self, home: FragmentIndex, after: Ino) -> Result<Vec<(Ino, u64)>, Errno> {
        let request = Request::ListMeant { fragment: self.own_index, after };
        match self.call_for(home, &request, LIST_PATIENCE)? {
            Reply::Objects(objects) => Ok(objects),
            _ => Err(Errno::PROTO),
        }
    }

    /// The name of a fragment's node.
    pub fn name(&self, fragment: FragmentIndex) -> NodeName {
        self.nodes.get(fragment.place()).map(|peer| peer.address.node.clone()).unwrap_or_default()
    }

    /// All fragments, in order; this one too.
    pub fn all(&self) -> impl Iterator<Item = FragmentIndex> {
        FragmentIndex::of_each(&self.nodes).map(|(fragment, _)| fragment)
    }

    /// Asks again until there is an answer, the caller's `patience` is over, or the node's grace period.
    fn call(&self, fragment: FragmentIndex, request: &Request, patience: Duration) -> Result<(), Errno> {
        self.call_for(fragment, request, patience).map(drop)
    }

    fn call_for(
        &self,
        fragment: FragmentIndex,
        request: &Request,
        patience: Duration,
    ) -> Result<Reply, Errno> {
        match self.reply(fragment, request, patience)? {
            Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno)),
            reply => Ok(reply),
        }
    }

    /// What a fragment answers, also that something failed there.
    ///
    /// # Errors
    /// EIO when it does not answer for so long, or the grace period.
    pub fn reply(
        &self,
        fragment: FragmentIndex,
        request: &Request,
        patience: Duration,
    ) -> Result<Reply, Errno> {
        let peer = self.nodes.get(fragment.place()).ok_or(Errno::INVAL)?;
        peer.outage.admit()?;
        let started = Instant::now();
        loop {
            let error = match self.try_call(peer, fragment, request) {
                Ok(reply) => {
                    peer.outage.answered();
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let verdict = peer.outage.failed();
            if matches!(verdict, Verdict::Lost | Verdict::GiveUp) {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(node = ?peer.address.node, error, "a storage node does not answer");
            }
            if verdict == Verdict::GiveUp {
                self.probe(peer, fragment);
            }
            if matches!(verdict, Verdict::GiveUp | Verdict::GivenUp) || started.elapsed() >= patience {
                return Err(Errno::IO);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Finds out when a node that was given up is back.
    fn probe(&self, peer: &Peer, fragment: FragmentIndex) {
        let address = peer.address.clone();
        let (keys, claim) = (self.keys.clone(), self.claim(fragment, Role::Following));
        let name = address.node.clone();
        let reach = move || dial(&address, Via::Tcp, &keys, &claim).map(drop);
        let back = move |away: Duration| {
            tracing::info!(node = ?name, ms = away.as_millis(), "the storage node answers again");
        };
        outage::probe(&peer.outage, reach, back);
    }

    fn claim(&self, fragment: FragmentIndex, role: Role) -> Claim {
        let (instance, session) = (self.instance.clone(), self.terms.member(role).session());
        Claim { instance, session, namespace: self.namespace, fragment }
    }

    fn try_call(&self, peer: &Peer, fragment: FragmentIndex, request: &Request) -> Result<Reply, HelloError> {
        use Request::{ListMeant, ListObjects, Losses, SyncMany};
        let is_list = matches!(request, ListObjects { .. } | ListMeant { .. } | SyncMany { .. } | Losses(_));
        let idle = if is_list { &peer.listing } else { &peer.changing };
        let mut idle = idle.lock().expect("no thread panics while it talks to a peer");
        let mut connection = match idle.take().filter(Connection::may_go_on) {
            Some(connection) => connection,
            None if is_list => self.dial(peer, self.claim(fragment, Role::Repairing), LIST_WITHIN)?,
            None => {
                let claim = self.claim(fragment, Role::Following);
                let mut connection = self.dial(peer, claim, ANSWER_WITHIN)?;
                // What was asked by a connection that broke, perhaps before a restart of ours, must not be done later.
                self.ask(&mut connection, &Request::Fence)?;
                if let (Some(heed), Reply::Verifier(verifier)) =
                    (self.heed.get(), self.ask(&mut connection, &Request::Verifier)?)
                {
                    heed(fragment, verifier);
                }
                connection
            }
        };
        let reply = self.ask(&mut connection, request)?;
        *idle = Some(connection);
        Ok(reply)
    }

    /// Opens a connection, on which each answer may take so long.
    fn dial(&self, peer: &Peer, claim: Claim, within: Duration) -> Result<Connection, HelloError> {
        let dialed = dial(&peer.address, Via::Tcp, &self.keys, &claim);
        let (mut connection, _) = dialed.inspect_err(|error| self.terms.heed(error))?;
        connection.set_timeout(Some(within))?;
        Ok(connection)
    }

    fn ask(&self, connection: &mut Connection, request: &Request) -> Result<Reply, HelloError> {
        connection.send(self.next_id.fetch_add(1, Ordering::Relaxed), request, &[])?;
        let frame = connection.receive::<Reply>().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "it takes too long to answer")
            }
            _ => error,
        })?;
        Ok(frame.message)
    }
}

#[cfg(test)]
mod tests;
