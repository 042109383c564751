//! Connections to the storage nodes: a few idle ones for each, made when needed, made anew when they break.
//!
//! A request is sent again, with its first id, until it is answered or the grace period is over; the storage node knows
//! what it has done already. When the home shard was restarted, the first connection to it says which files are open.

use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError, Key};
use wire::data::{Connection, Reply, Request};
use wire::node::{NamespaceTarget, StorageAddress};

use crate::files::Held;

/// Idle connections kept for each node: as many as a mount has threads, and some.
const IDLE_MAX: usize = 16;

/// How long the first connection is tried for: a node that died is back in seconds.
const FIRST_WITHIN: Duration = Duration::from_secs(15);

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What is open and locked, for a home shard that forgot.
pub type Recall<'a> = &'a dyn Fn() -> Held;

/// Every storage node of an instance, in the order of its fragments.
pub struct Nodes {
    nodes: Vec<Node>,
    home: u32,
    instance: String,
    namespace: u32,
    key: Key,
    session: [u8; 16],
    /// The home shard knows the session from another client: its first connection says what is held, too.
    resumed: bool,
    grace: Duration,
}

struct Node {
    address: StorageAddress,
    via: Via,
    idle: Mutex<Vec<Connection>>,
    /// Which start of the node we know; `None` before the first connection.
    boot: Mutex<Option<u64>>,
}

impl Nodes {
    /// Nothing is connected yet.
    pub fn new(target: &NamespaceTarget, key: Key, session: [u8; 16]) -> Nodes {
        // With one node a file can be handed over as a descriptor, which needs the unix socket.
        let via = if target.nodes.len() == 1 { Via::Unix } else { Via::Tcp };
        let node = |address: &StorageAddress| Node {
            address: address.clone(),
            via,
            idle: Mutex::default(),
            boot: Mutex::default(),
        };
        Nodes {
            nodes: target.nodes.iter().map(node).collect(),
            home: target.home,
            instance: target.instance.clone(),
            namespace: target.namespace,
            key,
            session,
            resumed: false,
            grace: Duration::from_millis(target.grace_ms),
        }
    }

    /// The same, for a session that another client began.
    pub fn resume(target: &NamespaceTarget, key: Key, session: [u8; 16]) -> Nodes {
        Nodes { resumed: true, ..Nodes::new(target, key, session) }
    }

    /// What the nodes know this client by.
    pub fn session(&self) -> [u8; 16] {
        self.session
    }

    /// Connects to one node for the first time. It may be just starting again, so a broken connection is tried again, but
    /// not for the whole grace period: nobody uses the namespace yet, and somebody waits to hear why it cannot be used.
    pub fn check(&self, fragment: u32) -> Result<(), HelloError> {
        let node = self.node(fragment).map_err(std::io::Error::from)?;
        let (started, limit) = (Instant::now(), self.grace.min(FIRST_WITHIN));
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect(node, fragment, &Held::default) {
                Ok(connection) => {
                    node.give_back(connection);
                    return Ok(());
                }
                Err(HelloError::Io(_)) if started.elapsed() < limit => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends one request and waits for its answer, whose payload lands in `into`. Gives the payload's length too.
    ///
    /// # Errors
    /// The errno of a failed request; EIO when the node did not answer for the grace period, or will never.
    pub fn call(
        &self,
        fragment: u32,
        id: u64,
        request: &Request,
        payload: &[u8],
        into: &mut [u8],
        recall: Recall<'_>,
    ) -> Result<(Reply, usize), Errno> {
        let node = self.node(fragment)?;
        self.persist(node, || {
            let mut connection = self.checkout(node, fragment, recall)?;
            connection.send(id, request, payload)?;
            let answer = receive(&mut connection, id, into)?;
            node.give_back(connection);
            Ok(answer)
        })
        .and_then(|(reply, len)| match reply {
            Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno)),
            reply => Ok((reply, len)),
        })
    }

    /// Sends a request to each of several nodes at once, then collects the answers, in order.
    ///
    /// # Errors
    /// The first that failed, as [`Nodes::call`].
    pub fn call_each(
        &self,
        requests: &[(u32, u64, Request)],
        recall: Recall<'_>,
    ) -> Result<Vec<Reply>, Errno> {
        let under_way: Vec<Option<Connection>> = requests
            .iter()
            .map(|(fragment, id, request)| {
                let mut connection = self.checkout(self.node(*fragment).ok()?, *fragment, recall).ok()?;
                connection.send(*id, request, &[]).ok()?;
                Some(connection)
            })
            .collect();
        let mut replies = Vec::with_capacity(requests.len());
        for ((fragment, id, request), connection) in requests.iter().zip(under_way) {
            let answer = connection.and_then(|mut connection| {
                let answer = receive(&mut connection, *id, &mut []).ok()?;
                self.node(*fragment).ok()?.give_back(connection);
                Some(answer.0)
            });
            replies.push(match answer {
                Some(Reply::Failed(errno)) => return Err(Errno::from_raw_os_error(errno)),
                Some(reply) => reply,
                None => self.call(*fragment, *id, request, &[], &mut [], recall)?.0,
            });
        }
        Ok(replies)
    }

    /// The object of an inode, as a descriptor.
    ///
    /// # Errors
    /// As [`Nodes::call`]; ENOTSUP where the node does not hand it out.
    pub fn descriptor(&self, fragment: u32, id: u64, ino: u64, recall: Recall<'_>) -> Result<OwnedFd, Errno> {
        let node = self.node(fragment)?;
        self.persist(node, || {
            let mut connection = self.checkout(node, fragment, recall)?;
            connection.send(id, &Request::OpenObject { ino }, &[])?;
            let answer = match receive(&mut connection, id, &mut [])?.0 {
                Reply::Descriptor => Ok(connection.receive_descriptor()?),
                Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno)),
                _ => Err(Errno::PROTO),
            };
            node.give_back(connection);
            Ok(answer)
        })?
    }

    /// Tells the home shard that the session ends, if a connection is at hand.
    pub fn goodbye(&self, fragment: u32, id: u64) {
        let Ok(node) = self.node(fragment) else { return };
        let Some(mut connection) = node.idle().pop() else { return };
        if connection.send(id, &Request::Goodbye, &[]).is_ok() {
            // Its answer matters to nobody, but hanging up before it could lose the request.
            let _answer = receive(&mut connection, id, &mut []);
        }
    }

    /// Tries again what failed because a connection broke, until the grace period is over.
    fn persist<T>(
        &self,
        node: &Node,
        mut attempt: impl FnMut() -> Result<T, HelloError>,
    ) -> Result<T, Errno> {
        let mut trouble: Option<Instant> = None;
        let mut pause = PAUSE_MIN;
        loop {
            let error = match attempt() {
                Ok(done) => {
                    if let Some(since) = trouble {
                        tracing::info!(
                            node = node.address.node,
                            ms = since.elapsed().as_millis(),
                            "the node answers again"
                        );
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            let since = *trouble.get_or_insert_with(|| {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(node = node.address.node, error, "lost the storage node, trying again");
                Instant::now()
            });
            let hopeless = !matches!(error, HelloError::Io(_));
            if hopeless || since.elapsed() > self.grace {
                let error = &error as &dyn std::error::Error;
                tracing::error!(node = node.address.node, error, "the storage node is lost: EIO");
                return Err(Errno::IO);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn checkout(&self, node: &Node, fragment: u32, recall: Recall<'_>) -> Result<Connection, HelloError> {
        let idle = node.idle().pop();
        idle.map_or_else(|| self.connect(node, fragment, recall), Ok)
    }

    fn connect(&self, node: &Node, fragment: u32, recall: Recall<'_>) -> Result<Connection, HelloError> {
        let claim = Claim {
            instance: self.instance.clone(),
            namespace: self.namespace,
            fragment,
            session: self.session,
        };
        let (mut connection, boot) = dial(&node.address, node.via, &self.key, &claim)?;
        let mut known = node.boot.lock().expect(POISON);
        if *known != Some(boot) {
            if known.is_some() || self.resumed {
                // What is idle belongs to the node's former life.
                node.idle().clear();
                if fragment == self.home {
                    let held = recall();
                    connection.send(0, &Request::Reclaim { opens: held.opens }, &[])?;
                    receive(&mut connection, 0, &mut [])?;
                    connection.send(0, &Request::ReclaimLocks { locks: held.locks }, &[])?;
                    receive(&mut connection, 0, &mut [])?;
                }
            }
            *known = Some(boot);
        }
        Ok(connection)
    }

    fn node(&self, fragment: u32) -> Result<&Node, Errno> {
        self.nodes.get(fragment as usize).ok_or(Errno::INVAL)
    }
}

impl Node {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().expect(POISON)
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

const POISON: &str = "no thread panics while it holds a node's connections";

/// Takes one answer; its payload, if any, lands at the start of `into`.
fn receive(connection: &mut Connection, id: u64, into: &mut [u8]) -> Result<(Reply, usize), HelloError> {
    let frame = connection.receive::<Reply>()?;
    if frame.id != id || frame.payload_len > into.len() {
        return Err(HelloError::NotForebay);
    }
    connection.payload(&mut into[..frame.payload_len])?;
    Ok((frame.message, frame.payload_len))
}
