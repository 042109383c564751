//! The sessions by which storage nodes know the workers of a stage: each goes on with that of the one before. What one
//! that was killed had sent does not land any more then, and a home shard that was restarted meanwhile does not wait
//! for it to say what it has open: for so long any file might be. Whether it ended by itself does not matter: its last
//! word may not have been heard.
//!
//! **Invariant:** a session that cannot be read is never taken for none: its worker's last writes might still land.

use std::io;
use std::path::{Path, PathBuf};

use client::{Client, ConnectError, Held, Remembered};
use model::SessionId;
use wire::data::hello::Key;
use wire::node::{NamespaceTarget, StageSpec};

/// Why a stage has no session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It is not known what a predecessor may still have under way, or a successor would not know it of us.
    #[error("{tried} the stage's session {}", path.display())]
    Kept {
        /// What was tried.
        tried: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it did not work.
        source: io::Error,
    },
    /// The buffer cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// Connects with the session that is noted at `path`, or notes a new one there.
///
/// # Errors
/// See [`SessionError`].
pub fn noted(target: &NamespaceTarget, path: &Path) -> Result<Client, SessionError> {
    let failed = |tried| move |source| SessionError::Kept { tried, path: path.to_owned(), source };
    if let Some(session) = kept(path).map_err(failed("read"))? {
        return Ok(go_on(target, session)?);
    }
    let client = Client::connect(target)?;
    disk::replace(path, client.session().as_bytes()).map_err(failed("write"))?;
    Ok(client)
}

/// What an earlier worker noted; `None`: there was none that had sent anything.
fn kept(path: &Path) -> io::Result<Option<SessionId>> {
    let Some(bytes) = disk::read(path)? else { return Ok(None) };
    let session = SessionId::try_from(&*bytes);
    session.map(Some).map_err(|_| {
        io::Error::new(io::ErrorKind::InvalidData, format!("it is damaged: {} bytes, not 16", bytes.len()))
    })
}

/// Connects with the session of the stage's mover of this name; `key` is the buffer's.
///
/// # Errors
/// As [`Client::connect`].
pub(crate) fn of_mover(spec: &StageSpec, name: &str, key: &Key) -> Result<Client, ConnectError> {
    go_on(&spec.target, key.session(&("mover", &spec.target.instance, &spec.id, name)))
}

fn go_on(target: &NamespaceTarget, session: SessionId) -> Result<Client, ConnectError> {
    // Tells at once whether the buffer is there.
    Client::connect(target)?;
    Client::resume(target, session, Held::default(), Remembered::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_cannot_be_read_is_never_taken_for_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("session");
        assert_eq!(kept(&path).unwrap(), None);
        disk::replace(&path, &[7; 16]).unwrap();
        assert_eq!(kept(&path).unwrap(), Some(SessionId([7; 16])));
        std::fs::write(&path, [7; 9]).unwrap();
        kept(&path).unwrap_err();
        // EISDIR
        kept(folder.path()).unwrap_err();
    }
}
