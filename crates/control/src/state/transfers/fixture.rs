//! A transfer for tests.

use model::Token;
use model::phase::{AccessMode, Direction, StageKind, StageState};
use wire::control::Owner;

use super::{Origin, Transfer};

impl Transfer {
    /// A stage-out on demand of session 7: `from` in its own buffer to `to` on the PFS, not begun.
    pub(crate) fn out(kind: StageKind, from: &str, to: &str) -> Transfer {
        Transfer {
            number: 0,
            token: Token::literal("7"),
            job: Some(Token::literal("7")),
            origin: Origin::OnDemand { size_hint: None, ino: None },
            direction: Direction::Out,
            kind,
            buffer: model::buffer::BufferRef::Own,
            access_mode: AccessMode::Striped,
            buffer_path: from.into(),
            pfs_path: to.into(),
            pfs_mount: None,
            owner: Owner { uid: 1000, gid: 1000 },
            state: StageState::Deferred,
            report: None,
        }
    }
}
