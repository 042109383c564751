//! Which client of the data path.

use serde::{Deserialize, Serialize};

/// A client's session: the same on all its connections, drawn at random when it starts. Storage nodes that ask each
/// other have sessions that say who they are (`wire::data::member`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Another one that belongs to the same process, and to nobody else.
    #[must_use]
    pub fn second(self) -> SessionId {
        SessionId(self.0.map(|byte| !byte))
    }

    /// As it stands in handshakes, in files and under proofs.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 16]> for SessionId {
    fn from(bytes: [u8; 16]) -> SessionId {
        SessionId(bytes)
    }
}

impl From<SessionId> for [u8; 16] {
    fn from(session: SessionId) -> [u8; 16] {
        session.0
    }
}

impl TryFrom<&[u8]> for SessionId {
    type Error = std::array::TryFromSliceError;

    fn try_from(bytes: &[u8]) -> Result<SessionId, Self::Error> {
        bytes.try_into().map(SessionId)
    }
}
