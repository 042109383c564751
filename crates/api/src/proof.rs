//! How a service on the network proves itself before it is told anything.
//!
//! Whoever connects asks `GET /v1/proof/NONCE` first, and goes on, on the same connection, only where the reply is a
//! MUNGE credential over the service's name and the nonce, made by a user that the service may run as. munged makes
//! credentials in the name of the user who asks: who took the port while the service was away has none of root's.
//!
//! **Invariant:** a service signs nothing here that could be taken for a request: the texts begin differently
//! ([`crate::binding`]), and a nonce is [`NONCE_DIGITS`] hexadecimal digits.

use std::io;

use serde::{Deserialize, Serialize};

use crate::call::CallError;
use crate::http::{Reply, Request};
use crate::munge::{Munge, MungeError, ServiceUser};

/// What a proof is asked for at, before the nonce.
const PATH: &str = "/v1/proof/";

/// The length of a nonce.
const NONCE_DIGITS: usize = 32;

/// Why who answers is not believed to be the service.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// It gave no credential.
    #[error("what listens there does not prove to be {audience}: {source}")]
    None {
        /// The service that was looked for.
        audience: String,
        /// What it said instead.
        #[source]
        source: Box<CallError>,
    },
    /// The credential is not good.
    #[error("what listens there does not prove to be {audience}: {source}")]
    Munge {
        /// The service that was looked for.
        audience: String,
        /// What is wrong with it.
        #[source]
        source: MungeError,
    },
    /// Another user made it.
    #[error("a process of user {uid} listens there in the place of {audience}")]
    Impostor {
        /// The service that was looked for.
        audience: String,
        /// Who listens.
        uid: u32,
    },
}

/// What a service gives.
#[derive(Debug, Serialize, Deserialize)]
pub struct Proof {
    credential: String,
}

impl Proof {
    /// The proof of the service `audience` for `nonce`. Blocks while munged works.
    ///
    /// # Errors
    /// munged does not answer.
    pub fn make(munge: &Munge, audience: &str, nonce: &str) -> Result<Proof, MungeError> {
        Ok(Proof { credential: munge.encode(&text(audience, nonce))? })
    }
}

/// One question for a proof.
#[derive(Debug)]
pub struct Challenge {
    audience: String,
    nonce: String,
}

impl Challenge {
    /// A new one to the service `audience`.
    ///
    /// # Errors
    /// The kernel has no random numbers.
    pub fn new(audience: &str) -> io::Result<Challenge> {
        let mut bytes = [0; NONCE_DIGITS / 2];
        getrandom::fill(&mut bytes)?;
        Ok(Challenge { audience: audience.to_owned(), nonce: wire::hex::encode(&bytes) })
    }

    /// How the service is asked.
    pub fn request(&self) -> Request {
        Request::new("GET", &format!("{PATH}{}", self.nonce)).before_another()
    }

    /// Checks the service's reply. Blocks while munged works.
    ///
    /// # Errors
    /// It is no proof.
    pub fn check(&self, reply: &Reply, munge: &Munge, user: ServiceUser) -> Result<(), ProofError> {
        let audience = || self.audience.clone();
        let proof = self.request().result::<Proof>(reply);
        let proof =
            proof.map_err(|error| ProofError::None { audience: audience(), source: Box::new(error) })?;
        let made = munge.decode(&proof.credential, &text(&self.audience, &self.nonce));
        let made = made.map_err(|source| ProofError::Munge { audience: audience(), source })?;
        match user.may_be(made.uid) {
            true => Ok(()),
            false => Err(ProofError::Impostor { audience: audience(), uid: made.uid }),
        }
    }
}

/// The nonce of a request at `path` for a proof; `None`: it asks for something else.
pub fn nonce_in(path: &str) -> Option<&str> {
    let nonce = path.strip_prefix(PATH)?;
    (nonce.len() == NONCE_DIGITS && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(nonce)
}

fn text(audience: &str, nonce: &str) -> Vec<u8> {
    format!("forebay proof 1\n{audience}\n{nonce}\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_nonce_is_signed() {
        let challenge = Challenge::new("n1").unwrap();
        assert_eq!(nonce_in(&format!("/v1/proof/{}", challenge.nonce)), Some(challenge.nonce.as_str()));
        for other in ["/v1/health", "/v1/proof/", "/v1/proof/0", &format!("/v1/proof/{:\n<32}", "control")] {
            assert_eq!(nonce_in(other), None, "{other}");
        }
    }
}
