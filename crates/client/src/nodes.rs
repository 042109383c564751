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

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What is open and locked, for a home shard that forgot.
pub type Recall<'a> = &'a dyn Fn() -> Held;

/// One of several requests.
#[derive(Debug)]
pub struct Ask<'a> {
    /// Whom.
    pub fragment: u32,
    /// The request's number.
    pub id: u64,
    /// What.
    pub request: Request,
    /// Bytes that go with it.
    pub payload: &'a [u8],
    /// Where the bytes land that come with the answer.
    pub into: &'a mut [u8],
}

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

    /// Connects to one node, without trying again.
    pub fn check(&self, fragment: u32) -> Result<(), HelloError> {
        let node = self.node(fragment).map_err(std::io::Error::from)?;
        let connection = self.connect(node, fragment, &Held::default)?;
        node.give_back(connection);
        Ok(())
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

    /// Sends several requests at once, those to one node over one connection, and collects the answers with the lengths
    /// of their payloads. A node does its own in order; while it works on one it has the next already.
    ///
    /// # Errors
    /// For each its own, as [`Nodes::call`].
    pub fn exchange(&self, asks: &mut [Ask<'_>], recall: Recall<'_>) -> Vec<Result<(Reply, usize), Errno>> {
        let mut under_way: Vec<(u32, Option<Connection>)> = Vec::with_capacity(asks.len());
        for ask in asks.iter() {
            let known = under_way.iter().position(|(fragment, _)| *fragment == ask.fragment);
            let at = known.unwrap_or_else(|| {
                let node = self.node(ask.fragment).ok();
                let connection = node.and_then(|node| self.checkout(node, ask.fragment, recall).ok());
                under_way.push((ask.fragment, connection));
                under_way.len() - 1
            });
            let connection = &mut under_way[at].1;
            let sent = connection.as_mut().map(|to| to.send(ask.id, &ask.request, ask.payload));
            if !matches!(sent, Some(Ok(()))) {
                *connection = None;
            }
        }
        let answers = asks.iter_mut().map(|ask| {
            let (_, connection) = under_way.iter_mut().find(|(fragment, _)| *fragment == ask.fragment)?;
            let answer = receive(connection.as_mut()?, ask.id, ask.into);
            if answer.is_err() {
                *connection = None;
            }
            answer.ok()
        });
        let answers: Vec<_> = answers.collect();
        for (fragment, connection) in under_way {
            if let (Ok(node), Some(connection)) = (self.node(fragment), connection) {
                node.give_back(connection);
            }
        }
        asks.iter_mut()
            .zip(answers)
            .map(|(ask, answer)| match answer {
                Some((Reply::Failed(errno), _)) => Err(Errno::from_raw_os_error(errno)),
                Some(answer) => Ok(answer),
                // The connection broke: once more, one by one, and as often as it takes.
                None => self.call(ask.fragment, ask.id, &ask.request, ask.payload, ask.into, recall),
            })
            .collect()
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
