//! Who has which file open.

use std::time::{Duration, Instant};

use model::{Ino, SessionId};

use super::Sessions;

impl Sessions {
    /// Whether anybody has the file open.
    pub fn is_open(&self, ino: Ino) -> bool {
        self.files.contains_key(&ino)
    }

    /// Whether anybody has it open for writing.
    pub fn is_written(&self, ino: Ino) -> bool {
        self.files.get(&ino).is_some_and(|file| file.writers > 0)
    }

    /// Whether this session has it open.
    pub fn holds(&self, session: SessionId, ino: Ino) -> bool {
        self.handles(session, ino).is_some()
    }

    /// Whether it is known to have it open for at least that: for reading and for writing, where the counts are not 0.
    pub fn has_open(&self, session: SessionId, ino: Ino, (readers, writers): (u32, u32)) -> bool {
        self.handles(session, ino).is_some_and(|known| known.0 >= readers.min(1) && known.1 >= writers.min(1))
    }

    /// Whether the session has a connection.
    pub fn is_connected(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.connections > 0)
    }

    /// Whether the session has had no connection for longer than this.
    pub fn is_away(&self, session: SessionId, now: Instant, than: Duration) -> bool {
        let lost = self.sessions.get(&session).and_then(|session| session.lost);
        lost.is_some_and(|lost| now.duration_since(lost) > than)
    }

    /// Whether this session has any file open for writing.
    pub fn is_writing(&self, session: SessionId) -> bool {
        let opens = self.sessions.get(&session).into_iter().flat_map(|session| session.opens.values());
        opens.into_iter().any(|(_, writers)| *writers > 0)
    }

    /// Whether this session has it open for writing.
    pub fn writes(&self, session: SessionId, ino: Ino) -> bool {
        self.handles(session, ino).is_some_and(|(_, writers)| writers > 0)
    }

    fn handles(&self, session: SessionId, ino: Ino) -> Option<(u32, u32)> {
        self.sessions.get(&session)?.opens.get(&ino).copied()
    }
}
