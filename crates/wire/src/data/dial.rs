//! Opening a connection to a storage node, handshake included.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::connection::Connection;
use super::credential::Credential;
use super::hello::{self, Claim, HelloError, Refusal};
use super::moved::Place;
use super::shown::Shown;
use super::stream::Stream;
use crate::node::StorageAddress;

/// How long a node may take to accept and to answer the handshake. A living node answers in microseconds.
const TIMEOUT: Duration = Duration::from_secs(5);

/// By which socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// TCP, as from another machine.
    Tcp,
    /// The node's unix socket; TCP where it has none.
    Unix,
}

/// Connects to `address`, or to where the fragment is now, and proves `claim` with what is shown. Returns the
/// connection and the node's boot number.
///
/// # Errors
/// [`HelloError`].
pub fn dial<'a>(
    address: &StorageAddress,
    via: Via,
    shown: impl Into<Shown<'a>>,
    claim: &Claim,
) -> Result<(Connection, u64), HelloError> {
    let shown = shown.into();
    let credential = shown.now(claim);
    let dialed = match dial_with(address, via, &credential, claim) {
        // It may have come just now.
        Err(HelloError::Refused(Refusal::WrongKey)) => match shown.in_place_of(&credential, claim) {
            Some(newer) => dial_with(address, via, &newer, claim),
            None => Err(HelloError::Refused(Refusal::WrongKey)),
        },
        dialed => dialed,
    };
    dialed.map(|(connection, boot)| (connection.in_clear_until(shown.is_over()), boot))
}

fn dial_with(
    address: &StorageAddress,
    via: Via,
    credential: &Credential,
    claim: &Claim,
) -> Result<(Connection, u64), HelloError> {
    let place = Place::of(claim);
    let address = place.moved().unwrap_or(address);
    let stream = match (&address.unix, via) {
        (Some(path), Via::Unix) => Stream::Unix(UnixStream::connect(path)?),
        _ => Stream::tcp(connect_tcp(&address.tcp)?)?,
    };
    let (boot, stream) = begin(stream, TIMEOUT, credential, claim)?;
    // From here on a slow disk is no reason to give up: only a connection that breaks is, and a fragment that moves.
    let moved = move || place.has_moved().map(|to| format!("the fragment is on node {} now", to.node));
    Ok((Connection::waiting_unless(stream, moved)?, boot))
}

/// The handshake, and what follows it.
pub(super) fn begin(
    mut stream: Stream,
    timeout: Duration,
    credential: &Credential,
    claim: &Claim,
) -> Result<(u64, Stream), HelloError> {
    stream.set_timeout(Some(timeout))?;
    let (boot, ciphers) = match stream.is_over_network() {
        true => hello::greet(&mut stream, credential, claim)?,
        false => hello::greet(&mut stream, &credential.clone().in_clear(), claim)?,
    };
    Ok((boot, stream.encrypted(ciphers)?))
}

fn connect_tcp(address: &str) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
