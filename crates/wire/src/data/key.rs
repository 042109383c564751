//! Keys of instances, and secrets that are made of them.

use hmac::{Hmac, KeyInit, Mac};
use model::SessionId;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use super::connection::encode;
use crate::hex;

/// An instance's key, or a secret that was made of it. In text 64 hexadecimal digits; [`ENCRYPTED`] may be before them.
///
/// Whether what is said by it over a network is encrypted is a part of the key: wherever that goes the other goes, and
/// nobody can take the one for the other. Programs that know no encryption do not understand such a key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key {
    bytes: [u8; 32],
    is_encrypted: bool,
}

/// What the text of a key begins with whose connections are encrypted.
pub const ENCRYPTED: &str = "encrypted:";

impl Key {
    /// Reads its text.
    pub fn from_hex(text: &str) -> Option<Key> {
        let digits = text.strip_prefix(ENCRYPTED);
        let bytes = hex::decode(digits.unwrap_or(text))?;
        Some(Key { bytes, is_encrypted: digits.is_some() })
    }

    /// Whether what is said by it over a network is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// The same for connections that no network carries.
    pub(crate) fn in_clear(self) -> Key {
        Key { is_encrypted: false, ..self }
    }

    /// One that is made of it, and used as it.
    pub(crate) fn derived(&self, bytes: [u8; 32]) -> Key {
        Key { bytes, ..*self }
    }

    /// The same for connections that a node has handed over to another process: nobody in between can have one of them
    /// taken for one to the node, where the same bytes mean something else.
    pub(crate) fn handed_over(&self) -> Key {
        let mut mac = self.hmac();
        mac.update(b"forebay handed over");
        self.derived(mac.finalize().into_bytes().into())
    }

    /// A new one.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn draw() -> std::io::Result<Key> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Key::from_bytes(bytes))
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
        Key { bytes, is_encrypted: false }
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
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
        Hmac::new_from_slice(&self.bytes).expect("HMAC takes a key of any length")
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
        let digits = hex::encode(&key.bytes);
        if key.is_encrypted { format!("{ENCRYPTED}{digits}") } else { digits }
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_in_its_text_that_its_connections_are_encrypted_and_what_is_made_of_it_says_so_too() {
        let digits = "ab".repeat(32);
        let text = format!("{ENCRYPTED}{digits}");
        let (plain, encrypted) = (Key::from_hex(&digits).unwrap(), Key::from_hex(&text).unwrap());
        assert!(encrypted.is_encrypted() && !plain.is_encrypted() && encrypted != plain);
        assert_eq!((String::from(encrypted.clone()), String::from(plain.clone())), (text, digits.clone()));
        assert!(encrypted.derived([3; 32]).is_encrypted() && encrypted.in_clear() == plain);
        for wrong in
            [format!("{ENCRYPTED}{ENCRYPTED}{digits}"), format!("encrypted{digits}"), ENCRYPTED.to_owned()]
        {
            assert!(Key::from_hex(&wrong).is_none(), "{wrong}");
        }
    }
}
