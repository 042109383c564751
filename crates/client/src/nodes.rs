//! Connections to the storage nodes: a few idle ones for each, made when needed, made anew when they break.
//!
//! A request is sent again, with its first id, until it is answered or the grace period is over; the storage node knows
//! what it has done already. The first connection after a loss fences off the lost ones; to a home shard that was
//! restarted it says which files are open. From each node it learns the commit verifier, and every answer passes by
//! [`Commits`].

pub mod farewell;
mod idle;
pub mod lives;
mod lookout;
mod objects;
mod patience;
mod presented;
mod speech;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{FragmentIndex, InstanceId, SessionId};
use rustix::io::Errno;
use wire::data::dial::Via;
use wire::data::hello::HelloError;
use wire::data::outage::Outage;
use wire::data::{Connection, Credential, Reply, Request};
use wire::node::{NamespaceTarget, StorageAddress};

use crate::commits::{Commits, Remembered};
use crate::files::{Files, Held};
use crate::watch::{Waiting, Watch};
use idle::{Idle, idle_max};
use speech::receive;

/// One of several requests.
#[derive(Debug)]
pub struct Ask<'a> {
    /// Whom.
    pub fragment: FragmentIndex,
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
    home: FragmentIndex,
    instance: InstanceId,
    namespace: u32,
    credential: Credential,
    session: SessionId,
    /// The home shard knows the session from another client: its first connection says what is held, too.
    resumed: bool,
    grace: Duration,
    files: Mutex<Files>,
    commits: Commits,
    watch: Arc<Watch>,
    /// The session has ended: nobody is asked anything any more.
    ended: AtomicBool,
}

struct Node {
    address: StorageAddress,
    /// Which of the instance's fragments it has.
    fragment: FragmentIndex,
    via: Via,
    idle: Mutex<Idle<Link>>,
    life: Mutex<Life>,
    /// Where the others are TCP: asks for objects of files that are also on other nodes.
    beside: Mutex<Option<Connection>>,
    outage: Arc<Outage>,
}

/// What is between two losses of connections to a node. The first connection of a life fences off those of the last, so
/// that no request that was under way then is done after one that is sent again.
#[derive(Clone, Copy, Default)]
struct Life {
    number: u64,
    begun: bool,
    /// Which start of the node we know.
    boot: Option<u64>,
    /// The fragment's commit verifier since then.
    verifier: u64,
}

/// A connection, and the life that it belongs to.
struct Link {
    connection: Connection,
    life: u64,
    /// The fragment's commit verifier in that life.
    verifier: u64,
}

/// A reply, the length of its payload, and the commit verifier that the fragment had.
type Answered = (Reply, usize, u64);

impl Nodes {
    /// Nothing is connected yet.
    pub fn new(
        target: &NamespaceTarget,
        credential: Credential,
        session: SessionId,
        remembered: Remembered,
    ) -> Nodes {
        // With one node a file can be handed over as a descriptor, which needs the unix socket.
        let via = if target.nodes.len() == 1 { Via::Unix } else { Via::Tcp };
        let idle_max = idle_max(target.nodes.len());
        let node = |(fragment, address): (FragmentIndex, &StorageAddress)| Node {
            address: address.clone(),
            fragment,
            via,
            idle: Mutex::new(Idle::up_to(idle_max)),
            life: Mutex::default(),
            beside: Mutex::default(),
            outage: Outage::none(Duration::from_millis(target.grace_ms)),
        };
        Nodes {
            nodes: FragmentIndex::of_each(&target.nodes).map(node).collect(),
            home: target.home,
            instance: target.instance.clone(),
            namespace: target.namespace,
            credential,
            session,
            resumed: false,
            files: Mutex::default(),
            grace: Duration::from_millis(target.grace_ms),
            commits: Commits::new(target.layout, target.home, remembered),
            watch: Watch::start(target.nodes.iter().map(|address| address.node.clone())),
            ended: AtomicBool::new(false),
        }
    }

    /// The same, for a session that another client began, which held and remembered this.
    pub fn resume(
        target: &NamespaceTarget,
        credential: Credential,
        session: SessionId,
        held: Held,
        remembered: Remembered,
    ) -> Nodes {
        let files = Mutex::new(Files::holding(held));
        let nodes = Nodes { resumed: true, files, ..Nodes::new(target, credential, session, remembered) };
        nodes.commits.resume();
        nodes
    }

    /// What is open and locked.
    pub fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().expect("no thread panics while it holds the table of open files")
    }

    /// What was answered and is not confirmed, and what was lost.
    pub fn commits(&self) -> &Commits {
        &self.commits
    }

    /// What the nodes know this client by.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Sends one request and waits for its answer, whose payload lands in `into`. Gives the payload's length too.
    ///
    /// # Errors
    /// The errno of a failed request; EIO when the node did not answer for the grace period, or will never.
    pub fn call(
        &self,
        fragment: FragmentIndex,
        id: u64,
        request: &Request,
        payload: &[u8],
        into: &mut [u8],
    ) -> Result<(Reply, usize), Errno> {
        let node = self.node(fragment)?;
        let _changing = self.commits.changing(std::iter::once(request));
        self.persist(fragment, || {
            self.until_it_counts(node, (fragment, request), |connection| {
                connection.send(id, &*self.presented(request), payload)?;
                receive(connection, id, into)
            })
        })
        .and_then(|answer| self.conclude(fragment, request, answer))
    }

    /// Asks until the answer counts.
    fn until_it_counts<T>(
        &self,
        node: &Node,
        (fragment, request): (FragmentIndex, &Request),
        mut ask: impl FnMut(&mut Connection) -> Result<(Reply, T), HelloError>,
    ) -> Result<(Reply, T, u64), HelloError> {
        loop {
            let mut link = self.checkout(node, fragment)?;
            match ask(&mut link.connection) {
                Ok((reply, rest)) if self.counts(fragment, link.life, request, &reply) => {
                    let verifier = link.verifier;
                    node.give_back(link);
                    return Ok((reply, rest, verifier));
                }
                Ok(_) => {}
                Err(error) => {
                    node.lost(link.life);
                    return Err(error);
                }
            }
        }
    }

    /// Notes what an answer has opened, closed or locked. It does not count where the home shard, restarted since, was
    /// told already what is held: there the file is not open, and the lock may be another's. So it is asked again.
    fn counts(&self, fragment: FragmentIndex, life: u64, request: &Request, reply: &Reply) -> bool {
        fragment != self.home || !Files::concern(request) || self.files().answered(life, request, reply)
    }

    /// Every answer passes here: it is noted before the caller has it.
    fn conclude(
        &self,
        fragment: FragmentIndex,
        request: &Request,
        (reply, len, verifier): Answered,
    ) -> Result<(Reply, usize), Errno> {
        if let Reply::Failed(errno) = reply {
            let errno = Errno::from_raw_os_error(errno);
            if let Request::Sync { ino } = request {
                // The node says so once.
                self.commits.lost_by_disk(fragment, *ino, errno);
            }
            return Err(errno);
        }
        self.commits.answered(fragment, verifier, request);
        Ok((reply.without_grant(), len))
    }

    /// Sends several requests at once, those to one node over one connection, and collects the answers with the lengths
    /// of their payloads. A node does its own in order; while it works on one it has the next already.
    ///
    /// # Errors
    /// For each its own, as [`Nodes::call`].
    pub fn exchange(&self, asks: &mut [Ask<'_>]) -> Vec<Result<(Reply, usize), Errno>> {
        let _changing = self.commits.changing(asks.iter().map(|ask| &ask.request));
        let mut lines: Vec<Line<'_>> = Vec::with_capacity(asks.len());
        for ask in asks.iter() {
            let known = lines.iter().position(|line| line.fragment == ask.fragment);
            let at = known.unwrap_or_else(|| {
                lines.push(self.line(ask.fragment));
                lines.len() - 1
            });
            lines[at].with(|connection| {
                Ok(connection.queue(ask.id, &*self.presented(&ask.request), ask.payload)?)
            });
        }
        lines.iter_mut().for_each(|line| drop(line.with(|connection| Ok(connection.flush()?))));
        let mut answers = Vec::with_capacity(asks.len());
        for ask in asks.iter_mut() {
            let line = lines.iter_mut().find(|line| line.fragment == ask.fragment);
            answers.push(line.and_then(|line| line.answer(self, ask)));
        }
        drop(lines);
        asks.iter_mut()
            .zip(answers)
            .map(|(ask, answer)| match answer {
                Some(answer) => self.conclude(ask.fragment, &ask.request, answer),
                // The connection broke: once more, one by one, and as often as it takes.
                None => self.call(ask.fragment, ask.id, &ask.request, ask.payload, ask.into),
            })
            .collect()
    }

    /// A line to a node; one that is broken already where it cannot be had at once.
    fn line(&self, fragment: FragmentIndex) -> Line<'_> {
        let waiting = self.waiting(fragment);
        let asked = self.node(fragment).ok().filter(|_| !self.ended.load(Ordering::SeqCst));
        let up = asked.and_then(|node| {
            node.outage.admit().ok()?;
            let link = self.checkout(node, fragment).ok()?;
            Some((node, link))
        });
        drop(waiting);
        Line { fragment, up, watch: &self.watch }
    }

    fn checkout(&self, node: &Node, fragment: FragmentIndex) -> Result<Link, HelloError> {
        let idle = node.idle().take().filter(|link| link.connection.may_go_on());
        idle.map_or_else(|| self.connect(node, fragment), Ok)
    }

    fn node(&self, fragment: FragmentIndex) -> Result<&Node, Errno> {
        self.nodes.get(fragment.place()).ok_or(Errno::INVAL)
    }
}

/// A connection that several requests go over. Given back when it is dropped, unless it broke.
struct Line<'a> {
    fragment: FragmentIndex,
    up: Option<(&'a Node, Link)>,
    watch: &'a Watch,
}

impl<'a> Line<'a> {
    /// Uses the connection; `None` when it breaks, or broke before.
    fn with<T>(
        &mut self,
        action: impl FnOnce(&mut Connection) -> Result<T, HelloError>,
    ) -> Option<(T, Option<Waiting<'a>>)> {
        let (node, link) = self.up.as_mut()?;
        let waiting = self.watch.waiting(self.fragment.place());
        let done = action(&mut link.connection);
        if done.is_err() {
            node.lost(link.life);
            self.up = None;
        }
        done.ok().map(|done| (done, waiting))
    }

    /// Takes one answer. Only now is the node waited for: what it said while another was waited for is there already.
    fn answer(&mut self, nodes: &Nodes, ask: &mut Ask<'_>) -> Option<Answered> {
        let (life, verifier) = self.up.as_ref().map(|(_, link)| (link.life, link.verifier))?;
        let ((reply, len), waiting) = self.with(|connection| receive(connection, ask.id, ask.into))?;
        waiting.into_iter().for_each(Waiting::answered);
        if !nodes.counts(self.fragment, life, &ask.request, &reply) {
            self.up = None;
            return None;
        }
        Some((reply, len, verifier))
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if let Some((node, link)) = self.up.take() {
            node.give_back(link);
        }
    }
}

impl Node {
    fn idle(&self) -> MutexGuard<'_, Idle<Link>> {
        self.idle.lock().expect(POISON)
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().expect(POISON)
    }

    /// Keeps a connection that was used, or finds the life over that broke with it.
    fn done_with<T>(&self, link: Link, answer: Result<T, HelloError>) -> Result<T, HelloError> {
        match &answer {
            Ok(_) => self.give_back(link),
            Err(_) => self.lost(link.life),
        }
        answer
    }

    fn give_back(&self, link: Link) {
        self.idle().keep(link.life, link);
    }

    /// Whether this life goes on.
    fn is_in(&self, number: u64) -> bool {
        let life = self.life();
        life.begun && life.number == number
    }

    /// A connection of this life broke. The others may still stand; the next life ends them.
    fn lost(&self, number: u64) {
        let mut life = self.life();
        if life.number == number {
            *life = Life { number: number + 1, begun: false, ..*life };
            self.idle().begin(life.number);
        }
    }
}

const POISON: &str = "no thread panics while it holds a node's connections";
