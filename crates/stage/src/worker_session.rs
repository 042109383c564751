//! The session by which storage nodes know the workers of a stage, noted beside the journal: each goes on with that of the
//! one before. What one that was killed had sent does not land any more then, and nodes that were restarted meanwhile do not
//! wait for it to say what it has open. Whether it ended by itself does not matter: its last word may not have been heard.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use client::{Client, ConnectError, Held};
use wire::node::NamespaceTarget;

/// Connects with the session that is noted at `path`, or notes a new one there.
///
/// # Errors
/// As [`Client::connect`].
pub fn connect(target: &NamespaceTarget, path: &Path) -> Result<Client, ConnectError> {
    // Also where a session is taken over: this tells at once whether the buffer is there.
    let client = Client::connect(target)?;
    match std::fs::read(path).map(<[u8; 16]>::try_from) {
        Ok(Ok(session)) => Client::resume(target, session, Held::default()),
        Ok(Err(_)) | Err(_) => {
            if let Err(error) = note(path, client.session()) {
                tracing::warn!(path = %path.display(), %error, "the stage's session is not kept for a successor");
            }
            Ok(client)
        }
    }
}

fn note(path: &Path, session: [u8; 16]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&session)
}
