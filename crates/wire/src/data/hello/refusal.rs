//! Why a handshake fails.

use std::io;

use super::VERSION;

/// Why a server turns a client away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server speaks another version.
    #[error("speaks another version of the data protocol")]
    Version,
    /// It has no such instance, namespace or fragment.
    #[error("does not serve this part of the buffer now; `forebay status` says why")]
    NoSuchFragment,
    /// The proof does not match.
    #[error("does not take this key or credential for the buffer")]
    WrongKey,
    /// It has as many connections as it takes.
    #[error("has as many connections as it takes")]
    Busy,
    /// Another node has taken the place of the fragment that speaks: see [`crate::data::member`].
    #[error("knows that another node has taken the place of this one")]
    Superseded,
    /// Another node has taken the place of the fragment that is asked for: that is where to ask.
    #[error("does not have this part of the buffer any more: another node has taken its place")]
    Moved,
    /// The credential was good until a moment before.
    #[error("says that the credential is too old (or one of the two clocks is wrong): begin the stage again")]
    Expired,
    /// What is said of the buffer over a network is encrypted, and this was not to be.
    #[error("speaks of this buffer over encrypted connections only, which this program was not told to make")]
    InClear,
}

impl Refusal {
    pub(super) fn code(self) -> u8 {
        match self {
            Refusal::Version => 1,
            Refusal::NoSuchFragment => 2,
            Refusal::WrongKey => 3,
            Refusal::Busy => 4,
            Refusal::Superseded => 5,
            Refusal::Moved => 6,
            Refusal::Expired => 7,
            Refusal::InClear => 8,
        }
    }

    /// Whether who is refused so acts on it for good, so that he wants it proven on encrypted connections.
    pub(super) fn is_for_good(self) -> bool {
        self == Refusal::Superseded
    }

    pub(super) fn from_code(code: u8) -> Option<Refusal> {
        use Refusal::{Busy, Expired, InClear, Moved, NoSuchFragment, Superseded, Version, WrongKey};
        let all = [Version, NoSuchFragment, WrongKey, Busy, Superseded, Moved, Expired, InClear];
        all.into_iter().find(|refusal| refusal.code() == code)
    }
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub enum HelloError {
    /// The connection broke.
    #[error("handshake with storage node")]
    Io(#[from] io::Error),
    /// The other side does not speak this protocol.
    #[error("the other side does not speak Forebay's data protocol")]
    NotForebay,
    /// The other side speaks another version.
    #[error("the other side speaks version {theirs} of the data protocol, this is version {VERSION}")]
    Version {
        /// Its version.
        theirs: u16,
    },
    /// The server turned the client away.
    #[error("the storage node {0}")]
    Refused(Refusal),
    /// Whoever listens there cannot show that it has the buffer's key.
    #[error(
        "what listens at the storage node's address does not have the buffer's key: another process may have its port"
    )]
    Impostor,
}

impl HelloError {
    /// Whether another try is of no use. Where a fragment has moved is told soon; a node whose port is taken may be
    /// back, and one that has too many connections has fewer later.
    pub fn is_final(&self) -> bool {
        match self {
            HelloError::Io(_) | HelloError::Impostor => false,
            HelloError::Refused(refusal) => !matches!(refusal, Refusal::Moved | Refusal::Busy),
            _ => true,
        }
    }
}
