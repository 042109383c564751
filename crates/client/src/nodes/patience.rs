//! How long a node is waited for that does not answer, and what becomes of what is asked of it meanwhile.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use model::{FragmentIndex, NodeName};
use rustix::io::Errno;
use wire::data::connection::is_shortage;
use wire::data::dial::dial;
use wire::data::hello::HelloError;
use wire::data::outage::{self, Verdict};

use super::{Node, Nodes};
use crate::watch::Waiting;

/// How long to try the first connection: a node that died is back in seconds.
const FIRST_WITHIN: Duration = Duration::from_secs(15);

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

impl Nodes {
    /// Connects to one node for the first time. It may be just starting again, so a broken connection is tried again,
    /// but not for the whole grace period: nobody uses the namespace yet, and somebody waits to hear why it cannot be
    /// used.
    pub fn check(&self, fragment: FragmentIndex) -> Result<(), HelloError> {
        let node = self.node(fragment).map_err(std::io::Error::from)?;
        let (started, limit) = (Instant::now(), self.grace.min(FIRST_WITHIN));
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect(node, fragment) {
                Ok(connection) => {
                    node.give_back(connection);
                    return Ok(());
                }
                Err(error) if !error.is_final() && started.elapsed() < limit => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Tries again what failed because a connection broke, until the node's grace period is over. Whoever asks for a
    /// node that was given up, fails at once.
    pub(super) fn persist<T>(
        &self,
        fragment: FragmentIndex,
        mut attempt: impl FnMut() -> Result<T, HelloError>,
    ) -> Result<T, Errno> {
        let node = self.node(fragment)?;
        node.outage.admit()?;
        let waiting = self.waiting(fragment);
        // Its own clock as well: a request that the node dies of each time must not be asked for ever.
        let mut trouble: Option<Instant> = None;
        let mut pause = PAUSE_MIN;
        loop {
            if self.ended.load(Ordering::SeqCst) {
                return Err(Errno::NOTCONN);
            }
            let error = match attempt() {
                Ok(done) => {
                    waiting.into_iter().for_each(Waiting::answered);
                    if let Some(away) = node.outage.answered() {
                        is_back(&node.address.node, away);
                    }
                    return Ok(done);
                }
                Err(error) => error,
            };
            let since = *trouble.get_or_insert_with(Instant::now);
            self.consider(node, &error)?;
            if since.elapsed() > self.grace {
                return Err(Errno::IO);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// From now on somebody waits for the node.
    pub(super) fn waiting(&self, fragment: FragmentIndex) -> Option<Waiting<'_>> {
        self.watch.waiting(fragment.place())
    }

    /// What follows from a failed attempt; EIO where there is no use in another.
    fn consider(&self, node: &Node, error: &HelloError) -> Result<(), Errno> {
        let name = &node.address.node;
        let shown = error as &dyn std::error::Error;
        if error.is_final() {
            tracing::error!(node = ?name, error = shown, "the storage node refused this client: EIO");
            return Err(Errno::IO);
        }
        if let HelloError::Io(error) = error
            && is_shortage(error)
        {
            // That says nothing of the node.
            let closed: usize = self.nodes.iter().map(|node| node.idle().drop_all()).sum();
            tracing::warn!(
                closed,
                "no descriptor is left for a connection (RLIMIT_NOFILE): closed those that were idle, trying again"
            );
            return Ok(());
        }
        match node.outage.failed() {
            Verdict::Lost => {
                tracing::warn!(node = ?name, error = shown, "lost the storage node, trying again")
            }
            Verdict::Wait => {}
            Verdict::GiveUp => {
                tracing::error!(
                    node = ?name,
                    error = shown,
                    "the storage node has been away for the grace period: what needs it fails with EIO until it answers"
                );
                self.probe(node);
                return Err(Errno::IO);
            }
            Verdict::GivenUp => return Err(Errno::IO),
        }
        Ok(())
    }

    /// Finds out when a node that was given up is back.
    fn probe(&self, node: &Node) {
        let (address, via, credential) = (node.address.clone(), node.via, self.credential.clone());
        let claim = self.claim(node.fragment);
        let name = address.node.clone();
        let reach = move || dial(&address, via, &credential, &claim).map(drop);
        outage::probe(&node.outage, reach, move |away| is_back(&name, away));
    }
}

fn is_back(node: &NodeName, away: Duration) {
    tracing::info!(?node, ms = away.as_millis(), "the storage node answers again");
}
