//! Where a process looks for a newer credential than the one that it has: the key of the buffer was changed, and the
//! node of the process was told. It is there only when all storage nodes take it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::credential::Credential;
use super::hello::Claim;

/// The file of this name beside a mount's specification says that its process looks there, and which credential it has
/// seen ([`tag`]): one of an older release does not, and would be locked out.
pub const MARK: &str = "renews";

type Look = dyn Fn(&Claim) -> Option<Credential> + Send + Sync;

static LOOK: OnceLock<Box<Look>> = OnceLock::new();

/// Whether what this process says is encrypted, as far as it has heard.
static ENCRYPTED: AtomicBool = AtomicBool::new(false);

/// From here on this process asks `look` for the credential of a claim. The first call counts.
pub fn look_by(look: impl Fn(&Claim) -> Option<Credential> + Send + Sync + 'static) {
    let _set = LOOK.set(Box::new(look));
}

/// From here on what this process says over a network is encrypted where the credential says so, also on what it has
/// connected before.
pub fn heard(credential: &Credential) {
    ENCRYPTED.store(credential.is_encrypted(), Ordering::Release);
}

/// Whether nothing may be said in clear.
pub(super) fn is_encrypted() -> bool {
    ENCRYPTED.load(Ordering::Acquire)
}

/// Which credential it is, to who knows it; of no use to anybody else.
pub fn tag(credential: &Credential) -> String {
    credential.secret().seal(b"renewed")
}

/// Another credential for the claim than this one.
pub(super) fn in_place_of(known: &Credential, claim: &Claim) -> Option<Credential> {
    LOOK.get()?(claim).filter(|found| found != known)
}
