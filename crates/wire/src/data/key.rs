//! Keys of instances, and secrets that are made of them.

use hmac::{Hmac, KeyInit, Mac};
use model::SessionId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::connection::encode;
use crate::hex;

/// An instance's key, or a secret that was made of it. In text 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key([u8; 32]);

impl Key {
    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Key> {
        hex::decode(text).map(Key)
    }

    /// A new one.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn draw() -> std::io::Result<Key> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Key(bytes))
    }

    /// What only who has the key can make of `bytes`, in hexadecimal digits.
    pub fn seal(&self, bytes: &[u8]) -> String {
        let mut mac = self.hmac();
        mac.update(b"seal");
        mac.update(bytes);
        hex::encode(&mac.finalize().into_bytes())
    }

    /// Whether `seal` is what [`Key::seal`] makes of `bytes`.
    pub fn is_seal(&self, bytes: &[u8], seal: &str) -> bool {
        let mut mac = self.hmac();
        mac.update(b"seal");
        mac.update(bytes);
        hex::decode::<32>(seal).is_some_and(|seal| mac.verify_slice(&seal).is_ok())
    }

    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Key {
        Key(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A session that only who has the key can know: that of `worker`, whatever that is.
    pub fn session(&self, worker: &impl Serialize) -> SessionId {
        let mut mac = self.hmac();
        mac.update(b"session");
        mac.update(&encode(worker));
        let bytes = mac.finalize().into_bytes();
        SessionId(std::array::from_fn(|at| bytes[at]))
    }

    /// An HMAC with it, of nothing so far.
    pub(crate) fn hmac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("HMAC takes a key of any length")
    }
}

impl TryFrom<String> for Key {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Key, Self::Error> {
        Key::from_hex(&text).ok_or("a key has 64 hexadecimal digits")
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        hex::encode(&key.0)
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}
