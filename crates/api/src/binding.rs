//! What a request's MUNGE credential is made over, so that it fits this request to this service alone.

use sha2::{Digest, Sha256};

/// The request's head in it: the service that is asked (`control`, or a node's name), the method, and the path with
/// its query.
fn head(audience: &str, method: &str, path: &str) -> String {
    format!("forebay 1\n{audience}\n{method}\n{path}\n")
}

fn digest(body: &[u8]) -> String {
    wire::hex::encode(&Sha256::digest(body)) + "\n"
}

/// The payload of the credential for a request.
pub fn binding(audience: &str, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    (head(audience, method, path) + &digest(body)).into_bytes()
}

/// The body that a credential was made for: a service knows it before it has read anything of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyDigest(Vec<u8>);

impl BodyDigest {
    /// Of a credential's payload; `None`: it was made for another request.
    pub fn of(payload: &[u8], audience: &str, method: &str, path: &str) -> Option<BodyDigest> {
        payload
            .strip_prefix(head(audience, method, path).as_bytes())
            .map(|digest| BodyDigest(digest.to_vec()))
    }

    /// Whether it is this one.
    pub fn fits(&self, body: &[u8]) -> bool {
        self.0 == digest(body).as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_fits_one_request_only() {
        let payload = binding("n1", "PUT", "/v1/mounts/7-striped", b"{}");
        let fits = |audience, method, path, body: &[u8]| {
            BodyDigest::of(&payload, audience, method, path).is_some_and(|digest| digest.fits(body))
        };
        assert!(fits("n1", "PUT", "/v1/mounts/7-striped", b"{}"));
        assert!(!fits("n2", "PUT", "/v1/mounts/7-striped", b"{}"));
        assert!(!fits("n1", "DELETE", "/v1/mounts/7-striped", b"{}"));
        assert!(!fits("n1", "PUT", "/v1/mounts/8-striped", b"{}"));
        assert!(!fits("n1", "PUT", "/v1/mounts/7-striped", b"{ }"));
        assert!(!fits("n1", "PUT", "/v1/mounts/7-striped\n", b"{}"));
    }
}
