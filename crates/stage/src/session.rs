//! The sessions by which storage nodes know the workers of a stage: each goes on with that of the one before. What one that
//! was killed had sent does not land any more then, and a home shard that was restarted meanwhile does not wait for it to say
//! what it has open: for so long any file might be. Whether it ended by itself does not matter: its last word may not have
//! been heard.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use client::{Client, ConnectError, Held, Remembered};
use wire::node::{NamespaceTarget, StageSpec};

/// Connects with the session that is noted at `path`, or notes a new one there.
///
/// # Errors
/// As [`Client::connect`].
pub fn noted(target: &NamespaceTarget, path: &Path) -> Result<Client, ConnectError> {
    if let Ok(Ok(session)) = std::fs::read(path).map(<[u8; 16]>::try_from) {
        return go_on(target, session);
    }
    let client = Client::connect(target)?;
    if let Err(error) = note(path, client.session()) {
        tracing::warn!(path = %path.display(), %error, "the stage's session is not kept for a successor");
    }
    Ok(client)
}

/// Connects with the session of the stage's mover of this name.
///
/// # Errors
/// As [`Client::connect`].
pub(crate) fn of_mover(spec: &StageSpec, name: &str) -> Result<Client, ConnectError> {
    let half = |which: u8| {
        let mut hasher = DefaultHasher::new();
        (which, &spec.target.instance, &spec.id, name).hash(&mut hasher);
        hasher.finish().to_be_bytes()
    };
    let mut session = [0; 16];
    session[..8].copy_from_slice(&half(0));
    session[8..].copy_from_slice(&half(1));
    go_on(&spec.target, session)
}

fn go_on(target: &NamespaceTarget, session: [u8; 16]) -> Result<Client, ConnectError> {
    // Tells at once whether the buffer is there.
    Client::connect(target)?;
    Client::resume(target, session, Held::default(), Remembered::default())
}

fn note(path: &Path, session: [u8; 16]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&session)
}
