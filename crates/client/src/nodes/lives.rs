//! What a connection begins with: which life of its node it is of, and what a new life has to be told.
//!
//! **Invariant:** nothing goes over a connection that was not there when its life's fence was answered, or was made in
//! that life.

use model::FragmentIndex;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError};
use wire::data::{Connection, Reply, Request};

use super::speech::{ask_verifier, say, takes_part_in_losses};
use super::{Life, Link, Node, Nodes};

/// A moment in the lives of a node: what was had from it then is as good now where nothing of this has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    life: u64,
    /// The fragment's commit verifier.
    pub(crate) verifier: u64,
}

impl Since {
    /// Of a process before this one, which knew this verifier at last: no moment of this one is the same.
    pub(crate) fn before_all(verifier: u64) -> Since {
        Since { life: u64::MAX, verifier }
    }

    pub(crate) fn is_before_all(self) -> bool {
        self.life == u64::MAX
    }
}

impl Link {
    pub(super) fn since(&self) -> Since {
        Since { life: self.life, verifier: self.verifier }
    }
}

impl Nodes {
    /// Now, as far as this client knows: until it is connected, from a process before it.
    pub fn since(&self, fragment: FragmentIndex) -> Since {
        let life = self.nodes.get(fragment.place()).map(|node| *node.life()).unwrap_or_default();
        Since { life: life.number, verifier: self.commits.verifier(fragment).unwrap_or_default() }
    }

    pub(super) fn connect(&self, node: &Node, fragment: FragmentIndex) -> Result<Link, HelloError> {
        let present = *node.life();
        if fragment != self.home && !present.begun && present.boot.is_some() {
            self.hear_what_is_gone()?;
        }
        if present.begun {
            let (connection, boot) = self.dial(node, node.via, fragment)?;
            if present.boot != Some(boot) {
                node.lost(present.number);
            } else if node.is_in(present.number) {
                return Ok(Link { connection, life: present.number, verifier: present.verifier });
            }
            // The next life may have fenced off what was before it before this connection was there: nothing goes over
            // it, as that would land whenever it likes.
        }
        // Held until the life has begun: whoever else connects waits.
        let mut life = node.life();
        let (mut connection, boot) = self.dial(node, node.via, fragment)?;
        if !life.begun || life.boot != Some(boot) {
            let verifier = self.begin(&life, fragment, &mut connection)?;
            *life = Life { begun: true, boot: Some(boot), verifier, ..*life };
            self.learn(node, fragment, verifier);
        }
        Ok(Link { connection, life: life.number, verifier: life.verifier })
    }

    /// A home shard that was out of reach for long may have ended the session, and have removed what was open: that is
    /// to be known before other nodes are asked for its bytes again.
    fn hear_what_is_gone(&self) -> Result<(), HelloError> {
        if self.node(self.home).is_ok_and(|home| home.outage.lasts() > self.grace / 2) {
            self.call(self.home, 0, &Request::Ping, &[], &mut []).map_err(std::io::Error::from)?;
        }
        Ok(())
    }

    /// What follows from the commit verifier of a fragment.
    fn learn(&self, node: &Node, fragment: FragmentIndex, verifier: u64) {
        if let Some(loss) = self.commits.begin(fragment, verifier) {
            tracing::error!(
                node = ?node.address.node,
                files = loss.files,
                others = loss.others,
                "the storage node lost unsynced writes, as a power loss does: the next fsync of each file that had \
                 some returns EIO; with others=true, that of every open file and folder"
            );
        }
    }

    /// Fences off what was before this life, tells the home shard what is held, and asks for the commit verifier.
    fn begin(
        &self,
        life: &Life,
        fragment: FragmentIndex,
        connection: &mut Connection,
    ) -> Result<u64, HelloError> {
        if fragment == self.home {
            self.commits.understood(takes_part_in_losses(connection)?);
        }
        if life.boot.is_none() && !self.resumed {
            return ask_verifier(connection);
        }
        say(connection, &Request::Fence)?;
        if fragment == self.home {
            // Also one that was not restarted: it may have waited for us for the grace period, and have ended the
            // session.
            let held = self.files().tell(life.number);
            if let Reply::Gone(inos) = say(connection, &Request::Reclaim { opens: held.opens })? {
                tracing::error!(
                    files = inos.len(),
                    "away for the grace period: files that were open and had no name are gone (ESTALE), and locks may \
                     be another's"
                );
                self.files().are_gone(inos);
            }
            say(connection, &Request::ReclaimLocks { locks: held.locks })?;
        }
        ask_verifier(connection)
    }

    pub(super) fn dial(
        &self,
        node: &Node,
        via: Via,
        fragment: FragmentIndex,
    ) -> Result<(Connection, u64), HelloError> {
        dial(&node.address, via, &self.credential, &self.claim(fragment))
    }

    pub(super) fn claim(&self, fragment: FragmentIndex) -> Claim {
        let (instance, session) = (self.instance.clone(), self.session);
        Claim { instance, namespace: self.namespace, fragment, session }
    }
}
