//! A fragment's way to the node of the next fragment of the instance, which keeps the copies of its metadata logs and
//! the mirror of its objects.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::{FragmentIndex, NodeName};
use rustix::io::Errno;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError};
use wire::data::keys::Keys;
use wire::data::member::Role;
use wire::data::moved;
use wire::data::{Connection, PAYLOAD_BYTES_MAX, Reply, Request};
use wire::node::{FragmentSpec, StorageAddress};

use crate::doubt::SILENT_MAX;
use crate::terms::Terms;

/// Where the copy of one namespace's log is, or the mirror of its objects.
#[derive(Clone, Debug)]
pub struct Place {
    address: StorageAddress,
    keys: Keys,
    claim: Claim,
    witnessed: bool,
    /// What the fragment knows of its own place.
    terms: Arc<Terms>,
}

/// What there is of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Bytes; 0: none.
    pub length: u64,
    /// The home had synced its log up to this entry.
    pub confirmed: u64,
}

/// An open connection to it.
pub struct Link {
    connection: Connection,
    next_id: u64,
    /// Where it leads, if an answer may take as long as the node lives and has the copy.
    patient: Option<(Place, StorageAddress)>,
}

/// The fragment whose node keeps the copies of this one's; `None` where the instance has no other.
pub fn keeper_of(spec: &FragmentSpec) -> Option<FragmentIndex> {
    let fragments = u32::try_from(spec.peers.len()).ok().filter(|count| *count > 1)?;
    Some(spec.index.further(1, fragments))
}

impl Place {
    /// Of the log of the namespace whose home is the fragment `spec`; `None` where the instance has no other.
    pub fn of(
        spec: &FragmentSpec,
        namespace: u32,
        keys: impl Into<Keys>,
        terms: &Arc<Terms>,
    ) -> Option<Place> {
        Place::at(spec, keeper_of(spec)?, (namespace, Role::Copying), keys, terms)
    }

    /// Of the objects that the fragment `spec` has of a namespace; `None` where they are not mirrored.
    pub fn of_mirror(
        spec: &FragmentSpec,
        namespace: u32,
        keys: impl Into<Keys>,
        terms: &Arc<Terms>,
    ) -> Option<Place> {
        let keeper = keeper_of(spec).filter(|_| spec.behaviour.mirrored)?;
        Place::at(spec, keeper, (namespace, Role::Mirroring), keys, terms)
    }

    /// Of the fragment whose objects `spec` keeps the mirror of; `None` where nothing is mirrored.
    pub fn of_primary(
        spec: &FragmentSpec,
        namespace: u32,
        keys: impl Into<Keys>,
        terms: &Arc<Terms>,
    ) -> Option<Place> {
        let fragments =
            u32::try_from(spec.peers.len()).ok().filter(|count| spec.behaviour.mirrored && *count > 1)?;
        let fragment = spec.index.further(fragments - 1, fragments);
        Place::at(spec, fragment, (namespace, Role::Repairing), keys, terms)
    }

    /// The node of another fragment, to be spoken to so of a namespace.
    pub fn at(
        spec: &FragmentSpec,
        fragment: FragmentIndex,
        (namespace, role): (u32, Role),
        keys: impl Into<Keys>,
        terms: &Arc<Terms>,
    ) -> Option<Place> {
        let address = spec.peers.get(fragment.place())?.clone();
        let session = terms.member(role).session();
        let claim = Claim { instance: spec.instance.clone(), namespace, fragment, session };
        let keys = keys.into();
        Some(Place { address, keys, claim, witnessed: spec.witnessed, terms: terms.clone() })
    }

    /// Whether another node has taken the place of the fragment that speaks.
    pub fn is_replaced(&self) -> bool {
        self.terms.is_replaced()
    }

    /// Whether control is to know before anything is confirmed without it.
    pub fn is_witnessed(&self) -> bool {
        self.witnessed
    }

    /// The name of the node that it is on now.
    pub fn node(&self) -> NodeName {
        self.address().node
    }

    /// Where it is now.
    fn address(&self) -> StorageAddress {
        moved::address_of(&self.claim).unwrap_or_else(|| self.address.clone())
    }

    /// Reaches the node, which may take `timeout` for each answer.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn connect(&self, timeout: Duration) -> Result<Connection, HelloError> {
        let dialed = dial(&self.address, Via::Tcp, &self.keys, &self.claim);
        let (mut connection, _) = dialed.inspect_err(|error| self.terms.heed(error))?;
        connection.set_timeout(Some(timeout))?;
        Ok(connection)
    }

    /// The same, to speak of the copy of a log.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn reach(&self, timeout: Duration) -> Result<Link, HelloError> {
        Ok(Link { connection: self.connect(timeout)?, next_id: 1, patient: None })
    }

    /// The same, where an answer may take as long as the node shows that it lives, and no other has its place.
    ///
    /// # Errors
    /// [`HelloError`].
    pub fn reach_patiently(&self) -> Result<Link, HelloError> {
        let patient = Some((self.clone(), self.address()));
        Ok(Link { patient, ..self.reach(SILENT_MAX)? })
    }
}

impl Link {
    /// Begins a copy.
    ///
    /// # Errors
    /// The other node's errno, or the connection's.
    pub fn begin(&mut self) -> io::Result<()> {
        self.ask(&Request::BeginCopy, &[]).map(drop)
    }

    /// Appends to it, and says how far the home has synced its log.
    ///
    /// # Errors
    /// As [`Link::begin`].
    pub fn append(&mut self, offset: u64, confirmed: u64, bytes: &[u8]) -> io::Result<()> {
        self.ask(&Request::AppendCopy { offset, confirmed }, bytes).map(drop)
    }

    /// Makes it survive a power loss, in place of the former one.
    ///
    /// # Errors
    /// As [`Link::begin`].
    pub fn sync(&mut self, length: u64) -> io::Result<()> {
        self.ask(&Request::SyncCopy { length }, &[]).map(drop)
    }

    /// What there is.
    ///
    /// # Errors
    /// As [`Link::begin`].
    pub fn find(&mut self) -> io::Result<Found> {
        match self.ask(&Request::FindCopy, &[])? {
            (Reply::Copy { length, confirmed }, _) => Ok(Found { length, confirmed }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// How often the fragment that asks has found its mirror there.
    ///
    /// # Errors
    /// As [`Link::begin`].
    pub fn meeting(&mut self) -> io::Result<u64> {
        match self.ask(&Request::FindMeeting, &[])? {
            (Reply::Meeting(number), _) => Ok(number),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// All bytes of the copy.
    ///
    /// # Errors
    /// As [`Link::begin`].
    pub fn read(&mut self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let len = u32::try_from(PAYLOAD_BYTES_MAX).expect("a payload is shorter than 4 GiB");
            let (_, more) = self.ask(&Request::ReadCopy { offset: bytes.len() as u64, len }, &[])?;
            if more.is_empty() {
                break;
            }
            bytes.extend(more);
        }
        Ok(bytes)
    }

    fn ask(&mut self, request: &Request, payload: &[u8]) -> io::Result<(Reply, Vec<u8>)> {
        self.connection.send(self.next_id, request, payload)?;
        self.next_id += 1;
        self.await_answer()?;
        let frame = self.connection.receive::<Reply>()?;
        let mut bytes = vec![0; frame.payload_len];
        self.connection.payload(&mut bytes)?;
        match frame.message {
            Reply::Failed(errno) => Err(Errno::from_raw_os_error(errno).into()),
            reply => Ok((reply, bytes)),
        }
    }

    /// Waits for an answer that may take long. A process that is frozen is not waited for, though its kernel says that
    /// the connection stands; nor is one whose place another has.
    fn await_answer(&mut self) -> io::Result<()> {
        let Some((place, address)) = &self.patient else { return Ok(()) };
        while !self.connection.is_ready(SILENT_MAX)? {
            if place.address() != *address {
                return Err(io::Error::other("another node has its place"));
            }
            // A sign of life: it takes another connection.
            place.connect(SILENT_MAX).map_err(|error| match error {
                HelloError::Io(error) => error,
                other => io::Error::other(other),
            })?;
        }
        Ok(())
    }
}
