//! Who may hold how much of a service: connections, requests and their bodies.
//!
//! Connections are counted by who is at the other end: a user on a unix socket, an address over TCP. Where there are
//! too many, whoever has most of them loses the one that has waited longest without asking anything: nobody is kept out
//! by another's. Requests are counted by their user, once it is known; further ones wait for his earlier ones. A
//! service's own user, root, and those who are configured (a workload manager) are not counted: they wait for nobody.
//!
//! **Invariant:** a connection is not closed for another one while its request is being answered, once it is known
//! whose that is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::crowd::{Crowd, Peer};
use rustix::process::{Resource, getrlimit};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// More connections than that at once are more than a cluster's programs need.
const CONNECTIONS_MAX: usize = 8192;

/// One user's requests that are answered at once. Those that wait for stages are among them.
const REQUESTS_MAX: usize = 256;

/// One user's request bodies that are held at once, KiB: one of the largest.
const BODIES_MAX_KIB: u32 = 16 << 10;

/// Credentials of one address that are checked at once: munged has two threads.
const CHECKS_MAX: usize = 4;

/// The connections of a service at all its listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    reserved: Vec<u32>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// How each is told to close.
    crowd: Crowd<Peer, Arc<Notify>>,
    checks: HashMap<Peer, Arc<Semaphore>>,
    users: HashMap<u32, OfUser>,
}

#[derive(Clone, Debug)]
struct OfUser {
    requests: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// One connection, for as long as it is open.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    /// `None`: it is not counted.
    peer: Option<Peer>,
    /// While it waits.
    turn: Mutex<Option<u64>>,
    close: Arc<Notify>,
}

/// A request that is being answered, for as long as it is.
#[derive(Debug)]
pub(crate) struct Working {
    place: Arc<Place>,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Connections {
    /// `reserved`: users that are not counted besides root and the service's own.
    pub(crate) fn new(reserved: Vec<u32>) -> Arc<Connections> {
        let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
        // A request may need files of its own, and so does the service.
        let max = files.map_or(CONNECTIONS_MAX, |files| (files / 2).min(CONNECTIONS_MAX));
        Connections::with_max(max, reserved)
    }

    pub(crate) fn with_max(max: usize, reserved: Vec<u32>) -> Arc<Connections> {
        let own = rustix::process::geteuid().as_raw();
        let reserved = reserved.into_iter().chain([0, own]).collect();
        Arc::new(Connections { max, reserved, held: Mutex::default() })
    }

    /// A place for a new connection; `None`: all are answering requests.
    pub(crate) fn admit(self: &Arc<Connections>, peer: Peer) -> Option<Arc<Place>> {
        let close = Arc::new(Notify::new());
        let counted = !matches!(peer, Peer::User(uid) if self.reserved.contains(&uid));
        let turn = match counted {
            true => Some(self.lock().enter(peer, &close, self.max)?),
            false => None,
        };
        let peer = counted.then_some(peer);
        Some(Arc::new(Place { connections: Arc::clone(self), peer, turn: Mutex::new(turn), close }))
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn enter(&mut self, peer: Peer, close: &Arc<Notify>, max: usize) -> Option<u64> {
        if self.crowd.len() >= max {
            self.crowd.make_room(peer)?.1.notify_one();
        }
        Some(self.crowd.enter(peer, Arc::clone(close)))
    }

    fn checks_of(&mut self, peer: Peer) -> Arc<Semaphore> {
        self.checks.retain(|_, checks| Arc::strong_count(checks) > 1);
        Arc::clone(self.checks.entry(peer).or_insert_with(|| Arc::new(Semaphore::new(CHECKS_MAX))))
    }

    fn of_user(&mut self, uid: u32) -> OfUser {
        self.users.retain(|_, of| Arc::strong_count(&of.requests) > 1 || Arc::strong_count(&of.bodies) > 1);
        let user = self.users.entry(uid).or_insert_with(|| OfUser {
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            bodies: Arc::new(Semaphore::new(BODIES_MAX_KIB as usize)),
        });
        user.clone()
    }
}

impl Place {
    /// Completes when the connection has to make room for another.
    pub(crate) async fn must_close(&self) {
        self.close.notified().await;
    }

    /// The host at the other end; `None`: this one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.peer? {
            Peer::Address(address) => Some(address),
            Peer::User(_) => None,
        }
    }

    /// For the check of a credential: those of one peer wait for each other.
    pub(crate) async fn check(&self) -> Option<OwnedSemaphorePermit> {
        let checks = self.connections.lock().checks_of(self.peer?);
        checks.acquire_owned().await.ok()
    }

    /// When it is the turn of a request of the user `uid` with a body of at most so many bytes. `None`: the connection
    /// was closed meanwhile.
    pub(crate) async fn work(self: &Arc<Place>, uid: u32, body: usize) -> Option<Working> {
        let mut permits = Vec::new();
        if !self.connections.reserved.contains(&uid) {
            let of = self.connections.lock().of_user(uid);
            let kib = u32::try_from(body.div_ceil(1024)).unwrap_or(u32::MAX).min(BODIES_MAX_KIB);
            permits.push(of.requests.acquire_owned().await.ok()?);
            permits.push(of.bodies.acquire_many_owned(kib).await.ok()?);
        }
        self.begin().then(|| Working { place: Arc::clone(self), _permits: permits })
    }

    fn begin(&self) -> bool {
        let Some(peer) = self.peer else { return true };
        let mut held = self.connections.lock();
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner).take();
        turn.is_some_and(|turn| held.crowd.begin(peer, turn))
    }

    fn end(&self) {
        let Some(peer) = self.peer else { return };
        let mut held = self.connections.lock();
        let turn = held.crowd.end(peer, Arc::clone(&self.close));
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = Some(turn);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.place.end();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(peer) = self.peer else { return };
        let mut held = self.connections.lock();
        let turn = self.turn.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(turn) = turn {
            held.crowd.leave(peer, turn);
        }
    }
}

#[cfg(test)]
mod tests;
