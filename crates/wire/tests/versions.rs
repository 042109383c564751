//! Two versions of the data protocol meet: whoever asks hears which one the other side speaks, and nothing is done.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use model::{FragmentIndex, InstanceId, SessionId};
use wire::data::Credential;
use wire::data::hello::{Claim, HelloError, Key, Refusal, greet, welcome};

/// One that no release has had.
const ANOTHER: u16 = u16::MAX;

fn key() -> Key {
    Key::from_hex(&"ab".repeat(32)).expect("64 digits are a key")
}

#[test]
fn a_client_names_the_version_of_a_node_that_speaks_another_one() {
    let (mut client, mut node) = UnixStream::pair().unwrap();
    let mut greeting = b"FRBY".to_vec();
    greeting.extend_from_slice(&ANOTHER.to_le_bytes());
    greeting.extend_from_slice(&[7; 32]);
    node.write_all(&greeting).unwrap();
    let claim = Claim {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        fragment: FragmentIndex(0),
        session: SessionId([9; 16]),
    };
    let refused = greet(&mut client, &Credential::member(key()), &claim).unwrap_err();
    assert!(refused.to_string().contains(&format!("version {ANOTHER}")), "{refused}");
    assert!(refused.is_final(), "another try is of no use");
}

#[test]
fn a_node_refuses_a_client_that_speaks_another_version_and_says_why() {
    let (mut client, mut node) = UnixStream::pair().unwrap();
    let mut claim = b"FRBY".to_vec();
    claim.extend_from_slice(&ANOTHER.to_le_bytes());
    claim.push(0);
    client.write_all(&claim).unwrap();
    let admitted = welcome(&mut node, 1, |_| Ok((key(), ())), |_, _, ()| Ok(()));
    assert!(matches!(admitted, Err(HelloError::Refused(Refusal::Version))));
    let mut said = [0; 38 + 41];
    client.read_exact(&mut said).unwrap();
    assert_eq!(said[38], 1, "the status says that it is the version");
}
