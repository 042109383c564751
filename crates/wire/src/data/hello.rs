//! The handshake: versions, and proof that the client has the instance's key.
//!
//! ```text
//! server -> client   "FRBY" version:u16le nonce[32]
//! client -> server   "FRBY" version:u16le instance_len:u8 instance[..] namespace:u32le fragment:u32le session[16] proof[32]
//! server -> client   status:u8 boot:u64le         status 0: welcome
//! proof := HMAC-SHA256(key, nonce session namespace fragment instance)
//! ```
//!
//! The key never travels. `boot` is a number that the server draws when it starts: a client that sees a new one knows
//! that the server forgot which files it had open. This layout is frozen: every later version must still be able to say
//! that it does not match.

use std::io::{self, Read, Write};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The protocol's version. 1: the first.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"FRBY";

/// An instance's key.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Key> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).ok()?;
            *byte = u8::from_str_radix(pair, 16).ok()?;
        }
        Some(Key(key))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// An HMAC with it, of nothing so far.
    pub(crate) fn hmac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("HMAC takes a key of any length")
    }

    fn mac(&self, nonce: &[u8; 32], claim: &Claim) -> Hmac<Sha256> {
        let mut mac = self.hmac();
        mac.update(nonce);
        mac.update(&claim.session);
        mac.update(&claim.namespace.to_le_bytes());
        mac.update(&claim.fragment.to_le_bytes());
        mac.update(claim.instance.as_bytes());
        mac
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// What a client says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The instance.
    pub instance: String,
    /// The namespace in it.
    pub namespace: u32,
    /// The fragment of it that this node should have.
    pub fragment: u32,
    /// The client's session: the same on all its connections, drawn at random when it starts.
    pub session: [u8; 16],
}

/// Why a server turns a client away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server speaks another version.
    #[error("speaks another version of the data protocol")]
    Version,
    /// It has no such instance, namespace or fragment.
    #[error("does not serve this part of the buffer now; `forebay status` says why")]
    NoSuchFragment,
    /// The proof does not match.
    #[error("does not take this buffer's key")]
    WrongKey,
    /// It has as many connections as it takes.
    #[error("has as many connections as it takes")]
    Busy,
    /// Another node has taken the place of the fragment that speaks: see [`super::member`].
    #[error("knows that another node has taken the place of who speaks")]
    Superseded,
    /// Another node has taken the place of the fragment that is asked for: that is where to ask.
    #[error("does not have this part of the buffer any more: another node has taken its place")]
    Moved,
}

impl Refusal {
    fn code(self) -> u8 {
        match self {
            Refusal::Version => 1,
            Refusal::NoSuchFragment => 2,
            Refusal::WrongKey => 3,
            Refusal::Busy => 4,
            Refusal::Superseded => 5,
            Refusal::Moved => 6,
        }
    }

    fn from_code(code: u8) -> Option<Refusal> {
        use Refusal::{Busy, Moved, NoSuchFragment, Superseded, Version, WrongKey};
        let all = [Version, NoSuchFragment, WrongKey, Busy, Superseded, Moved];
        all.into_iter().find(|refusal| refusal.code() == code)
    }
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection broke.
    #[error("handshake with storage node")]
    Io(#[from] io::Error),
    /// The other side does not speak this protocol.
    #[error("the other side does not speak Forebay's data protocol")]
    NotForebay,
    /// The other side speaks another version.
    #[error("the other side speaks version {theirs} of the data protocol, this is version {VERSION}")]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// The server turned the client away.
    #[error("the storage node {0}")]
    Refused(Refusal),
}

impl HelloError {
    /// Whether another try is of no use. Of a fragment that has moved, this machine is told soon where it is.
    pub fn is_final(&self) -> bool {
        !matches!(self, HelloError::Io(_) | HelloError::Refused(Refusal::Moved))
    }
}

/// The client's side. Returns the server's `boot` number.
///
/// # Errors
/// [`HelloError`]; nothing of the key has been sent in any case.
pub fn greet(stream: &mut (impl Read + Write), key: &Key, claim: &Claim) -> Result<u64, HelloError> {
    let mut greeting = [0; 38];
    stream.read_exact(&mut greeting)?;
    if greeting[..4] != MAGIC {
        return Err(HelloError::NotForebay);
    }
    let theirs = u16::from_le_bytes([greeting[4], greeting[5]]);
    let nonce: [u8; 32] = greeting[6..].try_into().expect("38 - 6 bytes are 32");
    let proof = key.mac(&nonce, claim).finalize().into_bytes();
    stream.write_all(&encode_claim(claim, &proof))?;
    if theirs != VERSION {
        return Err(HelloError::Version { theirs });
    }
    let mut answer = [0; 9];
    stream.read_exact(&mut answer)?;
    match answer[0] {
        0 => Ok(u64::from_le_bytes(answer[1..].try_into().expect("9 - 1 bytes are 8"))),
        code => Err(Refusal::from_code(code).map_or(HelloError::NotForebay, HelloError::Refused)),
    }
}

fn encode_claim(claim: &Claim, proof: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + claim.instance.len() + proof.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let instance = &claim.instance.as_bytes()[..claim.instance.len().min(255)];
    bytes.push(u8::try_from(instance.len()).expect("at most 255"));
    bytes.extend_from_slice(instance);
    bytes.extend_from_slice(&claim.namespace.to_le_bytes());
    bytes.extend_from_slice(&claim.fragment.to_le_bytes());
    bytes.extend_from_slice(&claim.session);
    bytes.extend_from_slice(proof);
    bytes
}

/// The server's side. `accept` looks the claim up and gives the instance's key and whatever the server needs later.
/// `admit` gets that when the claim is proven: before the client knows, and so before it can have sent a request.
///
/// # Errors
/// [`HelloError::Refused`] when the client was turned away; it has been told.
pub fn welcome<T, U>(
    stream: &mut (impl Read + Write),
    boot: u64,
    accept: impl FnOnce(&Claim) -> Result<(Key, T), Refusal>,
    admit: impl FnOnce(&Claim, T) -> Result<U, Refusal>,
) -> Result<U, HelloError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut greeting = [0; 38];
    greeting[..4].copy_from_slice(&MAGIC);
    greeting[4..6].copy_from_slice(&VERSION.to_le_bytes());
    greeting[6..].copy_from_slice(&nonce);
    stream.write_all(&greeting)?;

    let verdict = read_claim(stream)?.and_then(|(claim, proof)| {
        let (key, found) = accept(&claim)?;
        key.mac(&nonce, &claim).verify_slice(&proof).map_err(|_| Refusal::WrongKey)?;
        admit(&claim, found)
    });
    let mut answer = [0; 9];
    answer[0] = verdict.as_ref().err().map_or(0, |refusal| refusal.code());
    answer[1..].copy_from_slice(&boot.to_le_bytes());
    stream.write_all(&answer)?;
    verdict.map_err(HelloError::Refused)
}

type ClaimAndProof = (Claim, [u8; 32]);

fn read_claim(stream: &mut impl Read) -> Result<Result<ClaimAndProof, Refusal>, HelloError> {
    let mut start = [0; 7];
    stream.read_exact(&mut start)?;
    if start[..4] != MAGIC {
        return Err(HelloError::NotForebay);
    }
    if u16::from_le_bytes([start[4], start[5]]) != VERSION {
        return Ok(Err(Refusal::Version));
    }
    let mut instance = vec![0; usize::from(start[6])];
    stream.read_exact(&mut instance)?;
    let mut rest = [0; 56];
    stream.read_exact(&mut rest)?;
    let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
    let Ok(instance) = String::from_utf8(instance) else { return Ok(Err(Refusal::NoSuchFragment)) };
    let claim = Claim {
        instance,
        namespace: number(0),
        fragment: number(4),
        session: rest[8..24].try_into().expect("16 bytes"),
    };
    Ok(Ok((claim, rest[24..].try_into().expect("32 bytes"))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn claim() -> Claim {
        Claim { instance: "i7".into(), namespace: 1, fragment: 2, session: [9; 16] }
    }

    fn key(byte: &str) -> Key {
        Key::from_hex(&byte.repeat(32)).unwrap()
    }

    fn shake(server_key: Key, client_key: Key) -> (Result<u64, HelloError>, Result<(Claim, ()), HelloError>) {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        let admit = |claim: &Claim, ()| Ok((claim.clone(), ()));
        let server = std::thread::spawn(move || welcome(&mut a, 77, |_| Ok((server_key, ())), admit));
        let client = greet(&mut b, &client_key, &claim());
        (client, server.join().unwrap())
    }

    #[test]
    fn the_right_key_is_welcome() {
        let (client, server) = shake(key("ab"), key("ab"));
        assert_eq!(client.unwrap(), 77);
        assert_eq!(server.unwrap().0, claim());
    }

    #[test]
    fn a_wrong_key_is_refused_on_both_sides() {
        let (client, server) = shake(key("ab"), key("ac"));
        assert!(matches!(client, Err(HelloError::Refused(Refusal::WrongKey))));
        assert!(matches!(server, Err(HelloError::Refused(Refusal::WrongKey))));
    }

    #[test]
    fn a_stranger_is_told_apart() {
        let (mut a, mut b) = UnixStream::pair().unwrap();
        b.write_all(b"GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n").unwrap();
        let end = welcome(&mut a, 1, |_| Ok((key("ab"), ())), |_, ()| Ok(()));
        assert!(matches!(end, Err(HelloError::NotForebay)));
    }

    #[test]
    fn the_layout_of_the_claim_is_frozen() {
        let mut expected = b"FRBY\x01\x00\x02i7\x01\x00\x00\x00\x02\x00\x00\x00".to_vec();
        expected.extend_from_slice(&[9; 16]);
        expected.extend_from_slice(&[5; 32]);
        assert_eq!(encode_claim(&claim(), &[5; 32]), expected);
    }
}
