//! Who is let in by a handshake, and what those hear who are not.

use std::os::unix::net::UnixStream;

use model::{FragmentIndex, InstanceId, SessionId};

use super::claimed::identity;
use super::*;
use crate::data::credential::{Capability, User};

fn claim() -> Claim {
    Claim {
        instance: InstanceId::literal("i7"),
        namespace: 1,
        fragment: FragmentIndex(2),
        session: SessionId([9; 16]),
    }
}

fn key(byte: &str) -> Key {
    Key::from_hex(&byte.repeat(32)).unwrap()
}

fn shake(
    server_key: Key,
    credential: &Credential,
) -> (Result<u64, HelloError>, Result<(Claim, Identity), HelloError>) {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    let admit = |claim: &Claim, identity, ()| Ok((claim.clone(), identity));
    let server = std::thread::spawn(move || welcome(&mut a, 77, |_| Ok((server_key, ())), admit));
    let client = greet(&mut b, credential, &claim()).map(|(boot, _)| boot);
    (client, server.join().unwrap())
}

fn capability(identity: Identity) -> Capability {
    Capability { identity, namespace: 1, expires_s: None }
}

fn derived(capability: Capability) -> Credential {
    Credential::derive(&key("ab"), capability)
}

#[test]
fn the_right_key_is_welcome_and_a_member() {
    let (client, server) = shake(key("ab"), &Credential::member(key("ab")));
    assert_eq!(client.unwrap(), 77);
    assert_eq!(server.unwrap(), (claim(), Identity::Member));
}

#[test]
fn who_has_a_credential_is_who_it_says() {
    let user = Identity::User(User { uid: 7, groups: vec![7, 8] });
    for identity in [Identity::Kernel, user, Identity::SquashingKernel] {
        let (client, server) = shake(key("ab"), &derived(capability(identity.clone())));
        assert_eq!((client.unwrap(), server.unwrap()), (77, (claim(), identity)));
    }
}

#[test]
fn a_wrong_key_is_refused_on_both_sides() {
    let (client, server) = shake(key("ab"), &Credential::member(key("ac")));
    assert!(matches!(client, Err(HelloError::Refused(Refusal::WrongKey))));
    assert!(matches!(server, Err(HelloError::Refused(Refusal::WrongKey))));
}

#[test]
fn a_credential_that_is_over_or_for_another_namespace_or_makes_a_member_is_refused() {
    let over = Capability { expires_s: Some(1), ..capability(Identity::Kernel) };
    let other = Capability { namespace: 2, ..capability(Identity::Kernel) };
    let member = capability(Identity::Member);
    let why = [(over, Refusal::Expired), (other, Refusal::WrongKey), (member, Refusal::WrongKey)];
    for (capability, expected) in why {
        let (client, server) = shake(key("ab"), &derived(capability));
        assert!(matches!(client, Err(HelloError::Refused(refusal)) if refusal == expected));
        assert!(matches!(server, Err(HelloError::Refused(refusal)) if refusal == expected));
    }
}

/// As an older release is shown one that it does not know: with a number that no identity has.
#[test]
fn a_credential_that_a_node_does_not_know_is_refused() {
    let capability = |number: u8| {
        let mut bytes = crate::data::connection::encode(&capability(Identity::SquashingKernel));
        bytes[0] = number;
        bytes
    };
    assert_eq!(identity(&capability(3), &claim()), Ok(Identity::SquashingKernel));
    assert_eq!(identity(&capability(4), &claim()), Err(Refusal::WrongKey));
}

/// A storage node that hears it serves nobody any more: nobody in between is to say so.
#[test]
fn that_another_node_has_the_place_is_believed_of_who_can_prove_it_where_connections_are_encrypted() {
    let encrypted = Key::from_hex(&format!("{ENCRYPTED}{}", "ab".repeat(32))).unwrap();
    for (key, forged) in
        [(key("ab"), false), (key("ab"), true), (encrypted.clone(), false), (encrypted, true)]
    {
        let (mut a, b) = UnixStream::pair().unwrap();
        let known = key.clone();
        let server = std::thread::spawn(move || {
            let why = if forged { Refusal::WrongKey } else { Refusal::Superseded };
            let admit = |_: &Claim, _, ()| Err::<(), _>(why);
            welcome_over_network(&mut a, 77, |_| Ok((known, ())), admit).map(drop)
        });
        let is_believed = !forged || !key.is_encrypted();
        // What is said is changed from 3 to 5, or as it is.
        let mut heard = Changing { stream: b, at: 38, by: if forged { 3 ^ 5 } else { 0 } };
        let refused = greet(&mut heard, &Credential::member(key), &claim()).unwrap_err();
        match is_believed {
            true => assert!(matches!(refused, HelloError::Refused(Refusal::Superseded)), "{refused}"),
            false => assert!(matches!(refused, HelloError::Impostor) && !refused.is_final(), "{refused}"),
        }
        assert!(server.join().unwrap().is_err());
    }
}

#[test]
fn a_server_without_the_key_is_found_out() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    let impostor = std::thread::spawn(move || {
        a.write_all(&[&MAGIC[..], &VERSION.to_le_bytes(), &[1; 32]].concat()).unwrap();
        let mut rest = [0; 7 + 2 + 58 + 32];
        a.read_exact(&mut rest).unwrap();
        a.write_all(&[0; 41]).unwrap();
    });
    let client = greet(&mut b, &Credential::member(key("ab")), &claim());
    assert!(matches!(client, Err(HelloError::Impostor)));
    impostor.join().unwrap();
}

#[test]
fn what_follows_an_encrypted_handshake_is_encrypted_with_the_same_keys_on_both_sides() {
    let key = Key::from_hex(&format!("{ENCRYPTED}{}", "ab".repeat(32))).unwrap();
    for credential in
        [Credential::member(key.clone()), Credential::derive(&key, capability(Identity::Kernel))]
    {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let known = key.clone();
        let server = std::thread::spawn(move || {
            welcome_over_network(&mut a, 77, |_| Ok((known, ())), |_, _, ()| Ok(()))
        });
        let (boot, ours) = greet(&mut b, &credential, &claim()).unwrap();
        let ((), theirs) = server.join().unwrap().unwrap();
        assert_eq!(boot, 77);
        assert!(ours.unwrap().fits(&theirs.unwrap()));
    }
}

#[test]
fn who_changes_what_is_said_in_the_handshake_is_found_out() {
    let key = Key::from_hex(&format!("{ENCRYPTED}{}", "ab".repeat(32))).unwrap();
    // A byte of what the server says is changed on its way: of its number, its proof, its part of Noise.
    for at in [38 + 1, 38 + 9, 38 + 41, 38 + 41 + 40] {
        let (mut a, b) = UnixStream::pair().unwrap();
        let known = key.clone();
        let server = std::thread::spawn(move || {
            let _hung_up = welcome_over_network(&mut a, 77, |_| Ok((known, ())), |_, _, ()| Ok(()));
        });
        let greeted =
            greet(&mut Changing { stream: b, at, by: 1 }, &Credential::member(key.clone()), &claim());
        assert!(greeted.is_err(), "byte {at}");
        server.join().unwrap();
    }
}

/// Changes the byte that comes at this place.
struct Changing {
    stream: UnixStream,
    at: usize,
    by: u8,
}

impl Read for Changing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.stream.read(buffer)?;
        if self.at < len {
            buffer[self.at] ^= self.by;
        }
        self.at = self.at.checked_sub(len).unwrap_or(usize::MAX);
        Ok(len)
    }
}

impl Write for Changing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stranger_is_told_apart() {
    let (mut a, mut b) = UnixStream::pair().unwrap();
    b.write_all(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
    let end = welcome(&mut a, 1, |_| Ok((key("ab"), ())), |_, _, ()| Ok(()));
    assert!(matches!(end, Err(HelloError::NotForebay)));
}

#[test]
fn the_layout_of_the_claim_is_frozen() {
    let mut expected = b"FRBY\x02\x00\x02i7\x01\x00\x00\x00\x02\x00\x00\x00".to_vec();
    expected.extend_from_slice(&[9; 16]);
    expected.extend_from_slice(&[4; 32]);
    expected.extend_from_slice(b"\x03\x00cap");
    expected.extend_from_slice(&[5; 32]);
    assert_eq!(encode_claim(&claim(), &[4; 32], b"cap", &[5; 32]), expected);
}
