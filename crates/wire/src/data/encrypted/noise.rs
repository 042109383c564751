//! How two sides that know a secret come to keys that nobody else has: Noise_NNpsk0_25519_AESGCM_SHA256.
//!
//! ```text
//! client -> server   e[32] tag[16]
//! server -> client   e'[32] tag[16]
//! ```
//!
//! The secret is mixed in (`psk0`), and all that the two have said before (the prologue): where somebody in between has
//! changed a byte of that the tags do not fit. What both draw for this connection (`e`, `e'`) is forgotten with it.

use std::io::{self, Read, Write};

use curve25519_dalek::MontgomeryPoint;
use ring::aead;
use sha2::{Digest, Sha256};
use snow::params::{CipherChoice, DHChoice, HashChoice};
use snow::resolvers::CryptoResolver;
use snow::types::{Cipher, Dh, Hash, Random};
use snow::{Builder, HandshakeState};

use super::records::{RecordKey, TAG_BYTES};

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// A public key, and a tag.
const MESSAGE_BYTES: usize = 32 + TAG_BYTES;

/// What the two sides of a handshake have said and know so far.
pub(in crate::data) struct Agreed {
    /// Only they know it.
    pub(in crate::data) secret: [u8; 32],
    /// All that was said.
    pub(in crate::data) said: Vec<u8>,
}

/// The keys of one connection, for one side of it.
pub struct Ciphers {
    pub(super) ours: [u8; 32],
    pub(super) theirs: [u8; 32],
}

#[cfg(test)]
impl Ciphers {
    /// Whether these are the other side's.
    pub(in crate::data) fn fits(&self, other: &Ciphers) -> bool {
        (self.ours, self.theirs) == (other.theirs, other.ours) && self.ours != self.theirs
    }
}

impl std::fmt::Debug for Ciphers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ciphers(..)")
    }
}

/// The client's part.
pub(in crate::data) fn ask(stream: &mut (impl Read + Write), agreed: &Agreed) -> io::Result<Ciphers> {
    let builder = builder(agreed).and_then(Builder::build_initiator);
    let mut state = builder.map_err(io::Error::other)?;
    say(stream, &mut state)?;
    hear(stream, &mut state)?;
    let (ours, theirs) = state.dangerously_get_raw_split();
    Ok(Ciphers { ours, theirs })
}

/// The server's part.
pub(in crate::data) fn answer(stream: &mut (impl Read + Write), agreed: &Agreed) -> io::Result<Ciphers> {
    let builder = builder(agreed).and_then(Builder::build_responder);
    let mut state = builder.map_err(io::Error::other)?;
    hear(stream, &mut state)?;
    say(stream, &mut state)?;
    let (theirs, ours) = state.dangerously_get_raw_split();
    Ok(Ciphers { ours, theirs })
}

pub(super) fn builder(agreed: &Agreed) -> Result<Builder<'_>, snow::Error> {
    let builder = Builder::with_resolver(PATTERN.parse()?, Box::new(Primitives));
    builder.psk(0, &agreed.secret)?.prologue(&agreed.said)
}

fn say(stream: &mut impl Write, state: &mut HandshakeState) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    state.write_message(&[], &mut message).map_err(io::Error::other)?;
    stream.write_all(&message)
}

fn hear(stream: &mut impl Read, state: &mut HandshakeState) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    stream.read_exact(&mut message)?;
    let heard = state.read_message(&message, &mut []);
    let changed = |_| io::Error::new(io::ErrorKind::InvalidData, "the handshake was changed on its way");
    heard.map(drop).map_err(changed)
}

/// What Noise is made of here: what else in this program uses already, and the ciphers of the records.
struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(Kernel))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        (*choice == DHChoice::Curve25519).then(|| Box::new(X25519::default()) as Box<dyn Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        (*choice == HashChoice::SHA256).then(|| Box::new(Summed::default()) as Box<dyn Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        (*choice == CipherChoice::AESGCM)
            .then(|| Box::new(AesGcm(RecordKey::new(&[0; 32]))) as Box<dyn Cipher>)
    }
}

struct Kernel;

impl Random for Kernel {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        getrandom::fill(bytes).map_err(|_| snow::Error::Rng)
    }
}

#[derive(Default)]
struct X25519 {
    private: [u8; 32],
    public: [u8; 32],
}

impl Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(private);
        self.public = MontgomeryPoint::mul_base_clamped(self.private).to_bytes();
    }

    fn generate(&mut self, random: &mut dyn Random) -> Result<(), snow::Error> {
        let mut private = [0; 32];
        random.try_fill_bytes(&mut private)?;
        self.set(&private);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let point: [u8; 32] = public.get(..32).and_then(|key| key.try_into().ok()).ok_or(snow::Error::Dh)?;
        let shared = MontgomeryPoint(point).mul_clamped(self.private).to_bytes();
        // Of a point of low order it would be what everybody knows.
        if shared == [0; 32] {
            return Err(snow::Error::Dh);
        }
        out[..32].copy_from_slice(&shared);
        Ok(())
    }
}

#[derive(Default)]
struct Summed(Sha256);

impl Hash for Summed {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0.reset();
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(&self.0.clone().finalize());
    }
}

struct AesGcm(RecordKey);

impl Cipher for AesGcm {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        self.0 = RecordKey::new(key);
    }

    fn encrypt(&self, nonce: u64, beside: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (text, tag) = out.split_at_mut(plain.len());
        text.copy_from_slice(plain);
        tag[..TAG_BYTES].copy_from_slice(self.0.seal(nonce, beside, text).as_ref());
        plain.len() + TAG_BYTES
    }

    fn decrypt(
        &self,
        nonce: u64,
        beside: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, snow::Error> {
        let (text, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(snow::Error::Decrypt)?;
        let place = out.get_mut(..text.len()).ok_or(snow::Error::Decrypt)?;
        place.copy_from_slice(text);
        let opened = self.0.open(nonce, beside, aead::Tag::from(*tag), place);
        opened.map(|()| text.len()).map_err(|_| snow::Error::Decrypt)
    }
}
