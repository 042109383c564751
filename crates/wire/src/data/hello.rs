//! The handshake: versions, and proof on both sides that they know the instance's key, or a secret made of it.
//!
//! ```text
//! server -> client   "FRBY" version:u16le nonce[32]
//! client -> server   "FRBY" version:u16le instance_len:u8 instance[..] namespace:u32le fragment:u32le session[16]
//!                    nonce'[32] capability_len:u16le capability[..] proof[32]
//! server -> client   status:u8 boot:u64le proof'[32]         status 0: welcome
//! proof  := HMAC-SHA256(secret, "client" nonce nonce' session namespace fragment instance)
//! proof' := HMAC-SHA256(secret, "server" nonce nonce' session boot)
//! ```
//!
//! `secret` is what belongs to the capability, see [`super::credential`]; no secret ever travels. `boot` is a number
//! that the server draws when it starts: a client that sees a new one knows that the server forgot what it had open.
//! A server that takes a node's place without its key cannot make `proof'`: nobody sends it a byte, or believes one.
//! The first six bytes of each side and the status are frozen: every later version must still be able to say that it
//! does not match.

mod nonces;

use std::io::{self, Read, Write};
use std::time::SystemTime;

use hmac::Mac;
use model::{FragmentIndex, InstanceId, SessionId};

use super::credential::{CAPABILITY_BYTES_MAX, Capability, Credential, Identity, secret_of};
pub use super::key::Key;
use super::keys::Keys;
use nonces::Nonces;

/// The protocol's version. 1: clients had the instance's key, and servers proved nothing. 2: credentials.
pub const VERSION: u16 = 2;

const MAGIC: [u8; 4] = *b"FRBY";

/// What a client says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The instance.
    pub instance: InstanceId,
    /// The namespace in it.
    pub namespace: u32,
    /// The fragment of it that this node should have.
    pub fragment: FragmentIndex,
    /// The client's session: the same on all its connections, drawn at random when it starts.
    pub session: SessionId,
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
    #[error("does not take this key or credential for the buffer")]
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
    /// The credential was good until a moment before.
    #[error("says that the credential is too old (or one of the two clocks is wrong): begin the stage again")]
    Expired,
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
            Refusal::Expired => 7,
        }
    }

    fn from_code(code: u8) -> Option<Refusal> {
        use Refusal::{Busy, Expired, Moved, NoSuchFragment, Superseded, Version, WrongKey};
        let all = [Version, NoSuchFragment, WrongKey, Busy, Superseded, Moved, Expired];
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
    /// Whoever listens there cannot show that it has the buffer's key.
    #[error(
        "what listens at the storage node's address does not have the buffer's key: another process may have its port"
    )]
    Impostor,
}

impl HelloError {
    /// Whether another try is of no use. Where a fragment has moved is told soon; a node whose port is taken may be back,
    /// and one that has too many connections has fewer later.
    pub fn is_final(&self) -> bool {
        match self {
            HelloError::Io(_) | HelloError::Impostor => false,
            HelloError::Refused(refusal) => !matches!(refusal, Refusal::Moved | Refusal::Busy),
            _ => true,
        }
    }
}

/// The client's side. Returns the server's `boot` number.
///
/// # Errors
/// [`HelloError`]; nothing of the secret has been sent in any case.
pub fn greet(
    stream: &mut (impl Read + Write),
    credential: &Credential,
    claim: &Claim,
) -> Result<u64, HelloError> {
    let mut greeting = [0; 38];
    stream.read_exact(&mut greeting)?;
    if greeting[..4] != MAGIC {
        return Err(HelloError::NotForebay);
    }
    let theirs = u16::from_le_bytes([greeting[4], greeting[5]]);
    let mut nonces =
        Nonces { server: greeting[6..].try_into().expect("38 - 6 bytes are 32"), client: [0; 32] };
    getrandom::fill(&mut nonces.client).map_err(io::Error::other)?;
    let proof = nonces.client_proof(credential.secret(), claim).finalize().into_bytes();
    stream.write_all(&encode_claim(claim, &nonces.client, &credential.claim(), &proof))?;
    if theirs != VERSION {
        return Err(HelloError::Version { theirs });
    }
    let mut answer = [0; 41];
    stream.read_exact(&mut answer[..1])?;
    if answer[0] == Refusal::Busy.code() {
        return Err(HelloError::Refused(Refusal::Busy));
    }
    stream.read_exact(&mut answer[1..])?;
    if answer[0] != 0 {
        return Err(Refusal::from_code(answer[0]).map_or(HelloError::NotForebay, HelloError::Refused));
    }
    let boot = u64::from_le_bytes(answer[1..9].try_into().expect("9 - 1 bytes are 8"));
    let proven = nonces.server_proof(credential.secret(), claim, boot).verify_slice(&answer[9..]);
    proven.map(|()| boot).map_err(|_| HelloError::Impostor)
}

fn encode_claim(claim: &Claim, nonce: &[u8; 32], capability: &[u8], proof: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(128 + claim.instance.as_str().len() + capability.len() + proof.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let instance = claim.instance.as_str().as_bytes();
    let instance = &instance[..instance.len().min(255)];
    bytes.push(u8::try_from(instance.len()).expect("at most 255"));
    bytes.extend_from_slice(instance);
    bytes.extend_from_slice(&claim.namespace.to_le_bytes());
    bytes.extend_from_slice(&claim.fragment.to_le_bytes());
    bytes.extend_from_slice(claim.session.as_bytes());
    bytes.extend_from_slice(nonce);
    let length = u16::try_from(capability.len()).expect("a capability is shorter than CAPABILITY_BYTES_MAX");
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(capability);
    bytes.extend_from_slice(proof);
    bytes
}

/// The server's side. `accept` looks the claim up and gives the instance's keys and whatever the server needs later.
/// `admit` gets that when claim and identity are proven: before the client knows, and so before it can have sent a
/// request.
///
/// # Errors
/// [`HelloError::Refused`] when the client was turned away; it has been told.
pub fn welcome<K: Into<Keys>, T, U>(
    stream: &mut (impl Read + Write),
    boot: u64,
    accept: impl FnOnce(&Claim) -> Result<(K, T), Refusal>,
    admit: impl FnOnce(&Claim, Identity, T) -> Result<U, Refusal>,
) -> Result<U, HelloError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let mut greeting = [0; 38];
    greeting[..4].copy_from_slice(&MAGIC);
    greeting[4..6].copy_from_slice(&VERSION.to_le_bytes());
    greeting[6..].copy_from_slice(&nonce);
    stream.write_all(&greeting)?;

    let mut answer = [0; 41];
    answer[1..9].copy_from_slice(&boot.to_le_bytes());
    let verdict = read_claim(stream, nonce)?.and_then(|claimed| {
        let Claimed { claim, nonces, capability, proof } = claimed;
        let (keys, found) = accept(&claim)?;
        let keys: Keys = keys.into();
        let is_proven = |key: &Key| {
            let secret = secret_of(key, &capability);
            nonces.client_proof(&secret, &claim).verify_slice(&proof).is_ok()
        };
        let key = keys.find(is_proven).ok_or(Refusal::WrongKey)?;
        let admitted = admit(&claim, identity(&capability, &claim)?, found)?;
        // It may have been taken out of use meanwhile, and the connections that were noted by then have been ended.
        keys.find(|known| *known == key).ok_or(Refusal::WrongKey)?;
        let secret = secret_of(&key, &capability);
        answer[9..].copy_from_slice(&nonces.server_proof(&secret, &claim, boot).finalize().into_bytes());
        Ok(admitted)
    });
    answer[0] = verdict.as_ref().err().map_or(0, |refusal| refusal.code());
    // For clients that did not know better it is a connection that breaks: they try again.
    let said = if matches!(verdict, Err(Refusal::Busy)) { 1 } else { answer.len() };
    stream.write_all(&answer[..said])?;
    verdict.map_err(HelloError::Refused)
}

/// Who has proven this.
fn identity(capability: &[u8], claim: &Claim) -> Result<Identity, Refusal> {
    if capability.is_empty() {
        return Ok(Identity::Member);
    }
    let capability = Capability::decode(capability).ok_or(Refusal::WrongKey)?;
    // A clock before 1970 finds nothing too old.
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    match capability {
        over if over.is_over(now) => Err(Refusal::Expired),
        Capability { namespace, .. } if namespace != claim.namespace => Err(Refusal::WrongKey),
        // Only the key itself makes a storage node.
        Capability { identity: Identity::Member, .. } => Err(Refusal::WrongKey),
        Capability { identity, .. } => Ok(identity),
    }
}

/// What a client said, not proven yet.
struct Claimed {
    claim: Claim,
    nonces: Nonces,
    capability: Vec<u8>,
    proof: [u8; 32],
}

fn read_claim(stream: &mut impl Read, server: [u8; 32]) -> Result<Result<Claimed, Refusal>, HelloError> {
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
    let mut rest = [0; 58];
    stream.read_exact(&mut rest)?;
    let length = usize::from(u16::from_le_bytes([rest[56], rest[57]]));
    if length > CAPABILITY_BYTES_MAX {
        return Ok(Err(Refusal::WrongKey));
    }
    let mut capability = vec![0; length];
    stream.read_exact(&mut capability)?;
    let mut proof = [0; 32];
    stream.read_exact(&mut proof)?;
    let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("4 bytes"));
    let Ok(instance) = String::from_utf8(instance) else { return Ok(Err(Refusal::NoSuchFragment)) };
    let instance = InstanceId::unchecked(instance);
    let session = SessionId::try_from(&rest[8..24]).expect("16 bytes");
    let claim = Claim { instance, namespace: number(0), fragment: FragmentIndex(number(4)), session };
    let nonces = Nonces { server, client: rest[24..56].try_into().expect("32 bytes") };
    Ok(Ok(Claimed { claim, nonces, capability, proof }))
}

#[cfg(test)]
mod tests;
