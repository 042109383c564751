//! A process whose node has a newer credential for it.

use std::io::Read;
use std::net::TcpListener;

use model::{FragmentIndex, InstanceId, NodeName, SessionId};
use wire::data::credential::{Capability, Credential, Identity};
use wire::data::dial::{Via, dial};
use wire::data::hello::{self, Claim, HelloError, Key, Refusal};
use wire::data::keys::Keys;
use wire::data::message::Request;
use wire::data::shown::Shown;
use wire::data::{Connection, Stream, renewed};
use wire::node::StorageAddress;

/// Of a mount.
fn credential(key: &Key) -> Credential {
    let capability = Capability { identity: Identity::Kernel, namespace: 0, expires_s: None };
    Credential::derive(key, capability)
}

fn claim(instance: &'static str) -> Claim {
    Claim {
        instance: InstanceId::literal(instance),
        namespace: 0,
        fragment: FragmentIndex(0),
        session: SessionId([3; 16]),
    }
}

#[test]
fn the_former_credential_is_not_shown_where_there_is_a_newer_one() {
    let [former, present] = [1, 2].map(|byte| Key::from_hex(&wire::hex::encode(&[byte; 32])).unwrap());
    let newer = credential(&present);
    renewed::look_by(move |claim| (claim.instance.as_str() == "i1").then(|| newer.clone()));
    // Whoever has the former key alone, as a node whose folder is an old copy, or somebody in its place.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = listener.local_addr().unwrap().to_string();
    let key = former.clone();
    let other = std::thread::spawn(move || {
        let mut stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
        hello::welcome(&mut stream, 7, |_| Ok((key, ())), |_, _, ()| Ok(())).map(drop)
    });
    let claim = claim("i1");
    let address = StorageAddress { node: NodeName::literal("n1"), tcp, unix: None };
    let dialed = dial(&address, Via::Tcp, &credential(&former), &claim);
    assert!(matches!(dialed, Err(HelloError::Refused(Refusal::WrongKey))), "it is believed");
    assert!(matches!(other.join().unwrap(), Err(HelloError::Refused(Refusal::WrongKey))));
}

/// A connection to somebody who has the key.
fn connected(shown: Shown<'_>, key: &Key) -> (Connection, std::net::TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = StorageAddress {
        node: NodeName::literal("n1"),
        tcp: listener.local_addr().expect("it is bound").to_string(),
        unix: None,
    };
    let key = key.clone();
    let other = std::thread::spawn(move || {
        let socket = listener.accept().expect("somebody connects").0;
        let mut stream = Stream::tcp(socket.try_clone().expect("a descriptor is left")).expect("it is TCP");
        hello::welcome(&mut stream, 7, |_| Ok((key, ())), |_, _, ()| Ok(())).expect("it has the key");
        socket
    });
    let connection = dial(&address, Via::Tcp, shown, &claim("i2")).expect("it is let in").0;
    (connection, other.join().expect("it has let it in"))
}

#[test]
fn on_what_was_connected_in_clear_nothing_is_said_any_more_once_the_key_says_encrypted() {
    let text = wire::hex::encode(&[3; 32]);
    let [clear, encrypted] = ["", "encrypted:"].map(|is| Key::from_hex(&format!("{is}{text}")).unwrap());
    let keys = Keys::from(clear.clone());
    let of_mount = credential(&clear);
    let (mut node, mut at_node) = connected(Shown::Keys(&keys), &clear);
    let (mut mount, mut at_mount) = connected(Shown::Given(&of_mount), &clear);
    for connection in [&mut node, &mut mount] {
        connection.send(1, &Request::Verifier, &[]).unwrap();
        connection.queue(2, &Request::Verifier, &[]).unwrap();
    }
    keys.change(encrypted.clone(), Some(clear), 2);
    renewed::heard(&credential(&encrypted));
    let heard = |socket: &mut std::net::TcpStream| {
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        bytes.len()
    };
    for mut connection in [node, mount] {
        assert!(!connection.may_go_on());
        for said in [connection.flush(), connection.send(3, &Request::Verifier, &[])] {
            assert_eq!(said.unwrap_err().kind(), std::io::ErrorKind::ConnectionAborted);
        }
        assert!(
            connection.receive::<wire::data::Reply>().is_err(),
            "what is queued goes out before an answer"
        );
    }
    let one = 16 + wire::data::connection::encode(&Request::Verifier).len();
    assert_eq!([heard(&mut at_node), heard(&mut at_mount)], [one; 2], "what was sent before");
}
