//! Objects as descriptors: for who reads and writes them without asking.

use std::os::fd::OwnedFd;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::dial::Via;
use wire::data::{Reply, Request};

use super::lives::Since;
use super::speech::{ask_for_object, make_and_open};
use super::{Nodes, POISON};
use crate::watch::Waiting;

impl Nodes {
    /// The object of an inode, as a descriptor.
    ///
    /// # Errors
    /// As [`Nodes::call`]; ENOTSUP where the node does not hand it out.
    pub fn descriptor(&self, fragment: FragmentIndex, id: u64, ino: Ino) -> Result<(OwnedFd, Since), Errno> {
        let (node, request) = (self.node(fragment)?, Request::OpenObject { ino });
        self.persist(fragment, || {
            let mut link = self.checkout(node, fragment)?;
            let answer = ask_for_object(&mut link.connection, id, &self.presented(&request));
            let since = link.since();
            node.done_with(link, answer.map(|object| Ok((object?, since))))
        })?
    }

    /// The object of an inode on this machine, as a descriptor, of a node that is one of several. Not tried again:
    /// whoever asks can do without.
    ///
    /// # Errors
    /// ENOTSUP where the node is on another machine, or does not hand it out; ENOENT where it has no such object; EIO.
    pub fn descriptor_here(&self, fragment: FragmentIndex, id: u64, ino: Ino) -> Result<OwnedFd, Errno> {
        let node = self.node(fragment)?;
        if node.address.unix.is_none() {
            return Err(Errno::NOTSUP);
        }
        let waiting = self.waiting(fragment);
        let mut beside = node.beside.lock().expect(POISON);
        let mut connection = match beside.take() {
            Some(connection) => connection,
            None => self.dial(node, Via::Unix, fragment).map_err(|_| Errno::IO)?.0,
        };
        let request = Request::OpenObject { ino };
        let object = ask_for_object(&mut connection, id, &self.presented(&request)).map_err(|_| Errno::IO)?;
        waiting.into_iter().for_each(Waiting::answered);
        *beside = Some(connection);
        object
    }

    /// Makes a file with `request`, and has its object as a descriptor, where the node hands it out, by the same round
    /// trip.
    ///
    /// # Errors
    /// As [`Nodes::call`].
    pub fn make_with_descriptor(
        &self,
        fragment: FragmentIndex,
        (id, request): (u64, &Request),
        second_id: u64,
    ) -> Result<(Reply, Option<OwnedFd>), Errno> {
        let node = self.node(fragment)?;
        let _changing = self.commits.changing(std::iter::once(request));
        let (made, object, verifier) = self.persist(fragment, || {
            self.until_it_counts(node, (fragment, request), |connection| {
                make_and_open(connection, (id, request), second_id)
            })
        })?;
        let (made, _) = self.conclude(fragment, request, (made, 0, verifier))?;
        Ok((made, object.ok()))
    }
}
