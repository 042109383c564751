//! A connection that the node has handed to another process, a mover. Where it is encrypted the two begin anew, as that
//! process knows nothing of its keys.
//!
//! What the two prove to each other is of this alone: where somebody in between leads the client to the node again, or
//! one who means the node to this process, neither goes on.
//!
//! The client speaks first: what the other process said before the client has read the node's last record would come
//! together with that, and be taken for the next one.

use std::io::{Read, Write};
use std::time::Duration;

use super::connection::Connection;
use super::credential::Credential;
use super::dial::begin;
use super::hello::{self, Claim, HelloError, Refusal};
use super::keys::Keys;
use super::stream::Stream;

/// What the client says when it has nothing more to read of the node.
const READY: u8 = b'r';

/// How long the other process may take for a step of the handshake; it is only started then.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The same for the client, which has asked for it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The client's side, after the node's `Done`. Where the connection is not encrypted there is nothing to begin.
///
/// # Errors
/// [`HelloError`].
pub fn go_on(connection: Connection, credential: &Credential, claim: &Claim) -> Result<Stream, HelloError> {
    match connection.into_stream()? {
        stream @ Stream::Encrypted(_) => {
            let mut stream = stream.in_clear();
            stream.write_all(&[READY])?;
            let (_, stream) = begin(stream, START_TIMEOUT, &credential.handed_over(), claim)?;
            stream.set_timeout(None)?;
            Ok(stream)
        }
        stream => Ok(stream),
    }
}

/// The side of the process that the connection was handed to. Takes who proves by one of the keys that it speaks of
/// what `is_here` says is here; nothing is begun where what is said by them is in clear.
///
/// # Errors
/// As [`hello::welcome`].
pub fn take_over(
    mut stream: Stream,
    keys: Keys,
    is_here: impl FnOnce(&Claim) -> bool,
) -> Result<Stream, HelloError> {
    if !stream.is_over_network() || !keys.shown().is_encrypted() {
        return Ok(stream);
    }
    stream.set_timeout(Some(TIMEOUT))?;
    stream.read_exact(&mut [0])?;
    let accept = |claim: &Claim| if is_here(claim) { Ok((keys, ())) } else { Err(Refusal::NoSuchFragment) };
    let ciphers = hello::welcome_handed_over(&mut stream, accept)?;
    stream.set_timeout(None)?;
    Ok(stream.encrypted(ciphers)?)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use model::{FragmentIndex, InstanceId, NodeName, SessionId};

    use super::*;
    use crate::data::dial::{Via, dial};
    use crate::data::hello::{ENCRYPTED, Key};
    use crate::data::{Reply, Request};
    use crate::node::StorageAddress;

    fn key() -> Key {
        Key::from_hex(&format!("{ENCRYPTED}{}", "ab".repeat(32))).unwrap()
    }

    fn accept(listener: &TcpListener) -> Stream {
        let mut stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
        let found = |_: &Claim| Ok((key(), ()));
        let ((), ciphers) = hello::welcome_over_network(&mut stream, 1, found, |_, _, ()| Ok(())).unwrap();
        stream.encrypted(ciphers).unwrap()
    }

    /// As a node does, and at once the process that it starts.
    fn hand_over(listener: &TcpListener) -> Result<Stream, HelloError> {
        let mut connection = Connection::new(accept(listener));
        assert_eq!(connection.receive::<Request>().unwrap().message, Request::StartMover);
        connection.send(0, &Reply::Done, &[]).unwrap();
        take_over(connection.into_stream().unwrap().in_clear(), key().into(), |_| true)
    }

    fn claim() -> Claim {
        let (instance, session) = (InstanceId::literal("i1"), SessionId([7; 16]));
        Claim { instance, namespace: 0, fragment: FragmentIndex(0), session }
    }

    fn listen() -> (TcpListener, StorageAddress) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = listener.local_addr().unwrap().to_string();
        (listener, StorageAddress { node: NodeName::literal("n1"), tcp, unix: None })
    }

    #[test]
    fn who_means_the_node_is_not_led_to_who_has_a_connection_from_it_nor_the_other_way_round() {
        let is_refused = |error: &HelloError| matches!(error, HelloError::Refused(Refusal::WrongKey));
        let (listener, address) = listen();
        let other = std::thread::spawn(move || {
            let mut stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
            let led = hello::welcome_handed_over(&mut stream, |_| Ok((key().into(), ()))).map(drop);
            let mut connection = Connection::new(accept(&listener));
            connection.receive::<Request>().unwrap();
            connection.send(0, &Reply::Done, &[]).unwrap();
            let mut stream = connection.into_stream().unwrap().in_clear();
            stream.read_exact(&mut [0]).unwrap();
            let found = |_: &Claim| Ok((key(), ()));
            (led, hello::welcome_over_network(&mut stream, 1, found, |_, _, ()| Ok(())).map(drop))
        });
        let credential = Credential::member(key());
        let led = dial(&address, Via::Tcp, &credential, &claim()).map(drop).unwrap_err();
        let (mut connection, _) = dial(&address, Via::Tcp, &credential, &claim()).unwrap();
        connection.send(0, &Request::StartMover, &[]).unwrap();
        assert_eq!(connection.receive::<Reply>().unwrap().message, Reply::Done);
        let led_back = go_on(connection, &credential, &claim()).map(drop).unwrap_err();
        assert!(is_refused(&led) && is_refused(&led_back), "{led}; {led_back}");
        let (led, led_back) = other.join().unwrap();
        assert!(is_refused(&led.unwrap_err()) && is_refused(&led_back.unwrap_err()));
    }

    #[test]
    fn who_is_slow_to_read_that_a_connection_was_handed_over_goes_on_with_who_has_it() {
        let (listener, address) = listen();
        let mover = std::thread::spawn(move || hand_over(&listener));
        let (credential, claim) = (Credential::member(key()), claim());
        let (mut connection, _) = dial(&address, Via::Tcp, &credential, &claim).unwrap();
        connection.send(0, &Request::StartMover, &[]).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(connection.receive::<Reply>().unwrap().message, Reply::Done);
        let mut ours = Connection::new(go_on(connection, &credential, &claim).unwrap());
        let mut theirs = Connection::new(mover.join().unwrap().unwrap());
        theirs.send(7, &Reply::Done, &[]).unwrap();
        assert_eq!(ours.receive::<Reply>().unwrap().id, 7);
    }
}
