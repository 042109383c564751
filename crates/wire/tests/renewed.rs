//! A process whose node has a newer credential for it.

use std::net::TcpListener;

use model::{FragmentIndex, InstanceId, NodeName, SessionId};
use wire::data::credential::{Capability, Credential, Identity};
use wire::data::dial::{Via, dial};
use wire::data::hello::{self, Claim, HelloError, Key, Refusal};
use wire::data::{Stream, renewed};
use wire::node::StorageAddress;

/// Of a mount.
fn credential(key: &Key) -> Credential {
    let capability = Capability { identity: Identity::Kernel, namespace: 0, expires_s: None };
    Credential::derive(key, capability)
}

#[test]
fn the_former_credential_is_not_shown_where_there_is_a_newer_one() {
    let [former, present] = [1, 2].map(|byte| Key::from_hex(&wire::hex::encode(&[byte; 32])).unwrap());
    let newer = credential(&present);
    renewed::look_by(move |_| Some(newer.clone()));
    // Who has the former key alone, as a node whose folder is an old copy, or somebody in its place.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = listener.local_addr().unwrap().to_string();
    let key = former.clone();
    let other = std::thread::spawn(move || {
        let mut stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
        hello::welcome(&mut stream, 7, |_| Ok((key, ())), |_, _, ()| Ok(())).map(drop)
    });
    let claim = Claim {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        fragment: FragmentIndex(0),
        session: SessionId([3; 16]),
    };
    let address = StorageAddress { node: NodeName::literal("n1"), tcp, unix: None };
    let dialed = dial(&address, Via::Tcp, &credential(&former), &claim);
    assert!(matches!(dialed, Err(HelloError::Refused(Refusal::WrongKey))), "it is believed");
    assert!(matches!(other.join().unwrap(), Err(HelloError::Refused(Refusal::WrongKey))));
}
