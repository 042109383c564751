//! What a connection is proven by, and until when it may go on in clear text: the key of a buffer is changed while
//! connections of its are open.
//!
//! **Invariant:** once this process knows that what is said of a buffer is encrypted, it says nothing more in clear.

use super::credential::Credential;
use super::hello::Claim;
use super::inbox::WhyNot;
use super::keys::Keys;
use super::renewed;

const ENCRYPTED: &str = "the buffer's connections are encrypted now";

/// What is shown to a storage node.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// A storage node's own keys: the one that it shows now.
    Keys(&'a Keys),
    /// What a process was given, or what has come in its place.
    Given(&'a Credential),
}

impl<'a> From<&'a Keys> for Shown<'a> {
    fn from(keys: &'a Keys) -> Shown<'a> {
        Shown::Keys(keys)
    }
}

impl<'a> From<&'a Credential> for Shown<'a> {
    fn from(credential: &'a Credential) -> Shown<'a> {
        Shown::Given(credential)
    }
}

impl Shown<'_> {
    /// What to show. Where there is a newer one the former is shown to nobody.
    pub(super) fn now(self, claim: &Claim) -> Credential {
        match self {
            Shown::Keys(keys) => Credential::member(keys.shown()),
            Shown::Given(credential) => {
                renewed::in_place_of(credential, claim).unwrap_or_else(|| credential.clone())
            }
        }
    }

    /// What has come in the place of one that was refused.
    pub(super) fn in_place_of(self, refused: &Credential, claim: &Claim) -> Option<Credential> {
        match self {
            Shown::Keys(keys) => Some(Credential::member(keys.shown())).filter(|now| now != refused),
            Shown::Given(_) => renewed::in_place_of(refused, claim),
        }
    }

    /// Why nothing may be said in clear any more.
    pub(super) fn is_over(self) -> WhyNot {
        let why = |is_encrypted: bool| is_encrypted.then(|| ENCRYPTED.to_owned());
        match self {
            Shown::Keys(keys) => {
                let keys = keys.clone();
                WhyNot(Box::new(move || why(keys.is_encrypted())))
            }
            Shown::Given(_) => WhyNot(Box::new(move || why(renewed::is_encrypted()))),
        }
    }
}
