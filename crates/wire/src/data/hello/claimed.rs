//! What a client says in a handshake that it is, and whether it has proven that.

use std::io::Read;
use std::time::SystemTime;

use hmac::Mac;
use model::{FragmentIndex, InstanceId, SessionId};

use super::super::credential::{CAPABILITY_BYTES_MAX, Capability, Identity, secret_of};
use super::super::key::Key;
use super::super::keys::Keys;
use super::nonces::Nonces;
use super::{Claim, HelloError, MAGIC, Refusal, VERSION};

/// What a connection goes over, and to whom.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    Host,
    Network,
    HandedOver,
}

/// As it is sent.
pub(super) fn encode_claim(claim: &Claim, nonce: &[u8; 32], capability: &[u8], proof: &[u8]) -> Vec<u8> {
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

/// What a client said, not proven yet.
pub(super) struct Claimed {
    pub(super) claim: Claim,
    pub(super) nonces: Nonces,
    capability: Vec<u8>,
    proof: [u8; 32],
}

impl Claimed {
    /// The one of the keys by which it is proven.
    pub(super) fn key(&self, keys: &Keys, carrier: Carrier) -> Result<Key, Refusal> {
        if let Some(key) = keys.find(|key| self.is_proven_by(&self.secret(key, carrier))) {
            return Ok(key);
        }
        let in_clear = keys.find(|key| self.is_proven_by(&self.secret(key, Carrier::Host)));
        Err(in_clear.map_or(Refusal::WrongKey, |_| Refusal::InClear))
    }

    pub(super) fn secret(&self, key: &Key, carrier: Carrier) -> Key {
        let secret = secret_of(key, &self.capability);
        match carrier {
            Carrier::Host => secret.in_clear(),
            Carrier::Network => secret,
            Carrier::HandedOver => secret.handed_over(),
        }
    }

    /// What proves that the server knows the secret: that it says this.
    pub(super) fn proof_of(&self, secret: &Key, boot: u64, refusal: Option<&Refusal>) -> [u8; 32] {
        let mac = match refusal {
            None => self.nonces.server_proof(secret, &self.claim, boot),
            Some(refusal) if secret.is_encrypted() => {
                self.nonces.refusal_proof(secret, &self.claim, *refusal)
            }
            Some(_) => return [0; 32],
        };
        mac.finalize().into_bytes().into()
    }

    /// Who it is that has proven it.
    pub(super) fn identity(&self) -> Result<Identity, Refusal> {
        identity(&self.capability, &self.claim)
    }

    fn is_proven_by(&self, secret: &Key) -> bool {
        self.nonces.client_proof(secret, &self.claim).verify_slice(&self.proof).is_ok()
    }

    /// As it came.
    pub(super) fn encode(&self) -> Vec<u8> {
        encode_claim(&self.claim, &self.nonces.client, &self.capability, &self.proof)
    }
}

/// Takes it from the client.
pub(super) fn read_claim(
    stream: &mut impl Read,
    server: [u8; 32],
) -> Result<Result<Claimed, Refusal>, HelloError> {
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

/// Who has proven this.
pub(super) fn identity(capability: &[u8], claim: &Claim) -> Result<Identity, Refusal> {
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
