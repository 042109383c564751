//! What the two sides of a handshake prove, each with what the other has drawn.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::super::key::Key;
use super::{Claim, Refusal};

/// What both sides have drawn for one handshake.
pub(super) struct Nonces {
    pub(super) server: [u8; 32],
    pub(super) client: [u8; 32],
}

impl Nonces {
    pub(super) fn client_proof(&self, secret: &Key, claim: &Claim) -> Hmac<Sha256> {
        let mut mac = self.begin(secret, b"client", claim);
        mac.update(&claim.namespace.to_le_bytes());
        mac.update(&claim.fragment.to_le_bytes());
        mac.update(claim.instance.as_str().as_bytes());
        mac
    }

    pub(super) fn server_proof(&self, secret: &Key, claim: &Claim, boot: u64) -> Hmac<Sha256> {
        let mut mac = self.begin(secret, b"server", claim);
        mac.update(&boot.to_le_bytes());
        mac
    }

    /// Whoever is in between can say that the client is refused; only who knows the secret can prove it.
    pub(super) fn refusal_proof(&self, secret: &Key, claim: &Claim, refusal: Refusal) -> Hmac<Sha256> {
        let mut mac = self.begin(secret, b"refused", claim);
        mac.update(&[refusal.code()]);
        mac
    }

    /// What the two sides of an encrypted connection begin it with.
    pub(super) fn secret(&self, secret: &Key, claim: &Claim) -> [u8; 32] {
        self.begin(secret, b"records", claim).finalize().into_bytes().into()
    }

    /// Where the connection is encrypted it is another secret that is proven, so that nobody who is in between can have
    /// one side take it for one that is not.
    fn begin(&self, secret: &Key, who: &[u8], claim: &Claim) -> Hmac<Sha256> {
        let mut mac = secret.hmac();
        if secret.is_encrypted() {
            mac.update(b"forebay encrypted");
            mac = secret.derived(mac.finalize().into_bytes().into()).hmac();
        }
        mac.update(who);
        mac.update(&self.server);
        mac.update(&self.client);
        mac.update(claim.session.as_bytes());
        mac
    }
}
