//! Credentials by a key, in the form and with the promises of munged's: who made one has the key, it is good for a
//! while, and is taken once.
//!
//! **Invariant:** a credential is remembered for as long as it is good.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{getegid, geteuid};
use wire::data::hello::Key;
use wire::hex;

use super::{Identity, MungeError};

/// For how long one is good, also before its time: the hosts' clocks differ. munged has the same.
const GOOD_S: u64 = 300;

/// Bytes that make each one another.
const SALT: usize = 16;

/// Bytes before the payload: when it was made, and the salt.
const HEAD: usize = 8 + SALT;

/// A key, and what was taken by it.
#[derive(Debug)]
pub(super) struct Keyed {
    key: Key,
    /// By their salts, until when they are remembered.
    taken: Mutex<HashMap<[u8; SALT], u64>>,
}

impl Keyed {
    pub(super) fn new(key: Key) -> Keyed {
        Keyed { key, taken: Mutex::default() }
    }

    pub(super) fn encode(&self, payload: &[u8]) -> Result<String, MungeError> {
        self.made_at(now(), payload)
    }

    fn made_at(&self, time: u64, payload: &[u8]) -> Result<String, MungeError> {
        let mut salt = [0; SALT];
        getrandom::fill(&mut salt).map_err(|error| refused("make", &error.to_string()))?;
        let sealed = [&time.to_be_bytes(), &salt[..], payload].concat();
        Ok(format!("{}.{}", hex::encode(&sealed), self.key.seal(&sealed)))
    }

    pub(super) fn open(&self, credential: &str) -> Result<(Identity, Vec<u8>), MungeError> {
        let refused = |reason| refused("check", reason);
        let (sealed, seal) = credential.split_once('.').ok_or_else(|| refused("Invalid credential"))?;
        let sealed = bytes(sealed).ok_or_else(|| refused("Invalid credential"))?;
        if sealed.len() < HEAD || !self.key.is_seal(&sealed, seal) {
            return Err(refused("Invalid credential"));
        }
        let time = u64::from_be_bytes(std::array::from_fn(|at| sealed[at]));
        let salt = std::array::from_fn(|at| sealed[8 + at]);
        let now = now();
        if time.abs_diff(now) > GOOD_S {
            return Err(refused("Expired credential; the clocks of the hosts differ"));
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|_, until| *until >= now);
        if taken.insert(salt, time + GOOD_S).is_some() {
            return Err(refused("Replayed credential"));
        }
        let own = Identity { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        Ok((own, sealed[HEAD..].to_vec()))
    }
}

fn refused(operation: &'static str, reason: &str) -> MungeError {
    MungeError::Refused { operation, socket: None, reason: reason.to_owned() }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| hex::decode::<1>(std::str::from_utf8(pair).ok()?).map(|[byte]| byte)).collect()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map(|since| since.as_secs()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyed(digit: &str) -> Keyed {
        Keyed::new(Key::from_hex(&digit.repeat(64)).unwrap())
    }

    #[test]
    fn who_has_the_key_is_our_own_user_and_who_has_another_is_nobody() {
        let made = keyed("a").encode(b"payload").unwrap();
        let (who, payload) = keyed("a").open(&made).unwrap();
        assert_eq!((who.uid, payload.as_slice()), (geteuid().as_raw(), &b"payload"[..]));
        assert!(keyed("b").open(&made).is_err());
    }

    #[test]
    fn a_credential_is_taken_once_and_not_when_it_is_old_or_was_changed() {
        let service = keyed("a");
        let made = service.encode(b"payload").unwrap();
        service.open(&made).unwrap();
        assert!(service.open(&made).unwrap_err().to_string().contains("Replayed"));
        for time in [now() - GOOD_S - 1, now() + GOOD_S + 10] {
            let old = service.made_at(time, b"payload").unwrap();
            assert!(service.open(&old).unwrap_err().to_string().contains("Expired"), "{time}");
        }
        let other = service.encode(b"payload").unwrap().replacen("7061796c", "7061796d", 1);
        for wrong in [other.as_str(), "", ".", "00.00", "é.", &"0".repeat(200)] {
            assert!(service.open(wrong).is_err(), "{wrong}");
        }
    }
}
