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
//! Where the key says that connections are encrypted, `secret` is another one that is made of it, and on connections
//! that a network carries [`encrypted`](super::encrypted) goes on from here.
//!
//! `secret` is what belongs to the capability, see [`super::credential`]; no secret ever travels. `boot` is a number
//! that the server draws when it starts: a client that sees a new one knows that the server forgot what it had open.
//! A server that takes a node's place without its key cannot make `proof'`: nobody sends it a byte, or believes one.
//! The first six bytes of each side and the status are frozen: every later version must still be able to say that it
//! does not match.

mod nonces;
mod refusal;

use std::io::{self, Read, Write};
use std::time::SystemTime;

use hmac::Mac;
use model::{FragmentIndex, InstanceId, SessionId};

use super::credential::{CAPABILITY_BYTES_MAX, Capability, Credential, Identity, secret_of};
use super::encrypted::Ciphers;
use super::encrypted::noise::{self, Agreed};
pub use super::key::{ENCRYPTED, Key};
use super::keys::Keys;
use nonces::Nonces;
pub use refusal::{HelloError, Refusal};

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

/// The client's side. Returns the server's `boot` number, and the keys of what follows where that is encrypted, as the
/// credential's secret says.
///
/// # Errors
/// [`HelloError`]; nothing of the secret has been sent in any case.
pub fn greet(
    stream: &mut (impl Read + Write),
    credential: &Credential,
    claim: &Claim,
) -> Result<(u64, Option<Ciphers>), HelloError> {
    let mut greeting = [0; 38];
    stream.read_exact(&mut greeting)?;
    if greeting[..4] != MAGIC {
        return Err(HelloError::NotForebay);
    }
    let theirs = u16::from_le_bytes([greeting[4], greeting[5]]);
    let mut nonces =
        Nonces { server: greeting[6..].try_into().expect("38 - 6 bytes are 32"), client: [0; 32] };
    getrandom::fill(&mut nonces.client).map_err(io::Error::other)?;
    let secret = credential.secret();
    let proof = nonces.client_proof(secret, claim).finalize().into_bytes();
    let claimed = encode_claim(claim, &nonces.client, &credential.claim(), &proof);
    stream.write_all(&claimed)?;
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
    let proven = nonces.server_proof(secret, claim, boot).verify_slice(&answer[9..]);
    proven.map_err(|_| HelloError::Impostor)?;
    if !secret.is_encrypted() {
        return Ok((boot, None));
    }
    let said = [&greeting[..], &claimed, &answer].concat();
    let ciphers = noise::ask(stream, &Agreed { secret: nonces.secret(secret, claim), said })?;
    Ok((boot, Some(ciphers)))
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
/// request. What follows is in clear: for connections that no network carries.
///
/// # Errors
/// [`HelloError::Refused`] when the client was turned away; it has been told.
pub fn welcome<K: Into<Keys>, T, U>(
    stream: &mut (impl Read + Write),
    boot: u64,
    accept: impl FnOnce(&Claim) -> Result<(K, T), Refusal>,
    admit: impl FnOnce(&Claim, Identity, T) -> Result<U, Refusal>,
) -> Result<U, HelloError> {
    receive(stream, (boot, Carrier::Host), accept, admit).map(|(admitted, _)| admitted)
}

/// The same where a network carries the connection. Gives the keys of what follows as well, where that is encrypted, as
/// the key says by which the client is admitted.
///
/// # Errors
/// As [`welcome`].
pub fn welcome_over_network<K: Into<Keys>, T, U>(
    stream: &mut (impl Read + Write),
    boot: u64,
    accept: impl FnOnce(&Claim) -> Result<(K, T), Refusal>,
    admit: impl FnOnce(&Claim, Identity, T) -> Result<U, Refusal>,
) -> Result<(U, Option<Ciphers>), HelloError> {
    receive(stream, (boot, Carrier::Network), accept, admit)
}

/// What a connection goes over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carrier {
    Host,
    Network,
}

fn receive<K: Into<Keys>, T, U>(
    stream: &mut (impl Read + Write),
    (boot, carrier): (u64, Carrier),
    accept: impl FnOnce(&Claim) -> Result<(K, T), Refusal>,
    admit: impl FnOnce(&Claim, Identity, T) -> Result<U, Refusal>,
) -> Result<(U, Option<Ciphers>), HelloError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::other)?;
    let greeting = [&MAGIC[..], &VERSION.to_le_bytes(), &nonce].concat();
    stream.write_all(&greeting)?;

    let mut answer = [0; 41];
    answer[1..9].copy_from_slice(&boot.to_le_bytes());
    let verdict = read_claim(stream, nonce)?.and_then(|claimed| {
        let (keys, found) = accept(&claimed.claim)?;
        let keys: Keys = keys.into();
        let key = claimed.key(&keys, carrier)?;
        let identity = identity(&claimed.capability, &claimed.claim)?;
        let admitted = admit(&claimed.claim, identity, found)?;
        // It may have been taken out of use meanwhile, and the connections that were noted by then have been ended.
        keys.find(|known| *known == key).ok_or(Refusal::WrongKey)?;
        let secret = claimed.secret(&key, carrier);
        let proof = claimed.nonces.server_proof(&secret, &claimed.claim, boot).finalize();
        answer[9..].copy_from_slice(&proof.into_bytes());
        Ok((admitted, claimed, secret))
    });
    answer[0] = verdict.as_ref().err().map_or(0, |refusal| refusal.code());
    // For clients that did not know better it is a connection that breaks: they try again.
    let told = if matches!(verdict, Err(Refusal::Busy)) { 1 } else { answer.len() };
    stream.write_all(&answer[..told])?;
    let (admitted, claimed, secret) = verdict.map_err(HelloError::Refused)?;
    if !secret.is_encrypted() {
        return Ok((admitted, None));
    }
    let said = [&greeting[..], &claimed.encode(), &answer].concat();
    let agreed = Agreed { secret: claimed.nonces.secret(&secret, &claimed.claim), said };
    Ok((admitted, Some(noise::answer(stream, &agreed)?)))
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

impl Claimed {
    /// The one of the keys by which it is proven.
    fn key(&self, keys: &Keys, carrier: Carrier) -> Result<Key, Refusal> {
        if let Some(key) = keys.find(|key| self.is_proven_by(&self.secret(key, carrier))) {
            return Ok(key);
        }
        let in_clear = keys.find(|key| self.is_proven_by(&self.secret(key, Carrier::Host)));
        Err(in_clear.map_or(Refusal::WrongKey, |_| Refusal::InClear))
    }

    fn secret(&self, key: &Key, carrier: Carrier) -> Key {
        let secret = secret_of(key, &self.capability);
        if carrier == Carrier::Host { secret.in_clear() } else { secret }
    }

    fn is_proven_by(&self, secret: &Key) -> bool {
        self.nonces.client_proof(secret, &self.claim).verify_slice(&self.proof).is_ok()
    }

    /// As it came.
    fn encode(&self) -> Vec<u8> {
        encode_claim(&self.claim, &self.nonces.client, &self.capability, &self.proof)
    }
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
