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
//! Of a refusal `proof'` is nothing, but where connections are encrypted and the server has found the secret: there it
//! is `HMAC-SHA256(secret, "refused" nonce nonce' session status)`, and 5, which a storage node never comes back from,
//! is believed only with it.
//! The first six bytes of each side and the status are frozen: every later version must still be able to say that it
//! does not match.

mod claimed;
mod nonces;
mod refusal;

use std::io::{self, Read, Write};

use hmac::Mac;
use model::{FragmentIndex, InstanceId, SessionId};

use super::credential::{Credential, Identity};
use super::encrypted::Ciphers;
use super::encrypted::noise::{self, Agreed};
pub use super::key::{ENCRYPTED, Key};
use super::keys::Keys;
use claimed::{Carrier, encode_claim, read_claim};
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
    let (boot, answer) = hear(stream, &nonces, secret, claim)?;
    if !secret.is_encrypted() {
        return Ok((boot, None));
    }
    let said = [&greeting[..], &claimed, &answer].concat();
    let ciphers = noise::ask(stream, &Agreed { secret: nonces.secret(secret, claim), said })?;
    Ok((boot, Some(ciphers)))
}

/// What the server answers, and its number.
fn hear(
    stream: &mut impl Read,
    nonces: &Nonces,
    secret: &Key,
    claim: &Claim,
) -> Result<(u64, [u8; 41]), HelloError> {
    let mut answer = [0; 41];
    stream.read_exact(&mut answer[..1])?;
    if answer[0] == Refusal::Busy.code() {
        return Err(HelloError::Refused(Refusal::Busy));
    }
    stream.read_exact(&mut answer[1..])?;
    if answer[0] != 0 {
        let refusal = Refusal::from_code(answer[0]).ok_or(HelloError::NotForebay)?;
        let proof = nonces.refusal_proof(secret, claim, refusal);
        let is_doubted = secret.is_encrypted() && refusal.is_for_good();
        return Err(match is_doubted && proof.verify_slice(&answer[9..]).is_err() {
            true => HelloError::Impostor,
            false => HelloError::Refused(refusal),
        });
    }
    let boot = u64::from_le_bytes(answer[1..9].try_into().expect("9 - 1 bytes are 8"));
    let proven = nonces.server_proof(secret, claim, boot).verify_slice(&answer[9..]);
    proven.map_err(|_| HelloError::Impostor)?;
    Ok((boot, answer))
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

/// The same where the node has handed the connection over to this process: who means the node itself is refused, and
/// who means this process is by the node.
///
/// # Errors
/// As [`welcome`].
pub(super) fn welcome_handed_over(
    stream: &mut (impl Read + Write),
    accept: impl FnOnce(&Claim) -> Result<(Keys, ()), Refusal>,
) -> Result<Option<Ciphers>, HelloError> {
    receive(stream, (0, Carrier::HandedOver), accept, |_, _, ()| Ok(())).map(|((), ciphers)| ciphers)
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
        let secret = claimed.secret(&key, carrier);
        let admitted = claimed
            .identity()
            .and_then(|identity| admit(&claimed.claim, identity, found))
            // It may have been taken out of use meanwhile, and the connections that were noted by then have been ended.
            .and_then(|admitted| keys.find(|known| *known == key).map(|_| admitted).ok_or(Refusal::WrongKey));
        answer[9..].copy_from_slice(&claimed.proof_of(&secret, boot, admitted.as_ref().err()));
        Ok((admitted?, claimed, secret))
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

#[cfg(test)]
mod tests;
