//! How a mount is told that stages use a namespace which it had for itself: [`client::Sharing`] has what changes then.
//!
//! The node writes [`MARK`] beside the mount's specification, for every process of this mount to come, and then
//! connects to [`SOCKET`]: what it reads there was written when nothing is believed any more that others may change.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use client::{Client, Sharing};

use crate::kernel::Names;

/// The file that says so.
pub const MARK: &str = "shared";

/// Where this process is told.
pub const SOCKET: &str = "share.sock";

/// What a process of a mount begins with, whose specification, in `folder`, says whether it is `exclusive`. Where that
/// may change it is told by the socket.
///
/// # Errors
/// What the file system or the socket says.
pub fn begin(folder: &Path, exclusive: bool) -> io::Result<(Sharing, Option<UnixListener>)> {
    if !exclusive {
        return Ok((Sharing::Shared, None));
    }
    // Before the mark is looked for: whoever does not find the socket has written it in time.
    let listener = listen(folder)?;
    let sharing = if is_marked(folder) { Sharing::Demoted } else { Sharing::Exclusive };
    Ok((sharing, Some(listener)))
}

fn listen(folder: &Path) -> io::Result<UnixListener> {
    let path = folder.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

/// Answers in the background.
///
/// # Errors
/// No thread can be started.
pub fn serve(listener: UnixListener, client: Arc<Client>, names: Names) -> io::Result<()> {
    std::thread::Builder::new().name("sharing".into()).spawn(move || {
        for socket in listener.incoming() {
            client.demote();
            let told = names.forget().and_then(|()| socket?.write_all(b"shared\n"));
            if let Err(error) = told {
                tracing::warn!(%error, "cannot say that the namespace is shared");
            }
        }
    })?;
    Ok(())
}

/// Whether a process of this mount was told before. Where nobody knows it was: being believed to be alone is what can
/// be wrong.
fn is_marked(folder: &Path) -> bool {
    disk::exists(&folder.join(MARK)).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_begins_as_its_specification_and_the_mark_say() {
        let dir = tempfile::tempdir().unwrap();
        let state = |exclusive| begin(dir.path(), exclusive).unwrap();
        let (alone, listener) = state(true);
        assert!(alone == Sharing::Exclusive && listener.is_some());
        std::fs::write(dir.path().join(MARK), "").unwrap();
        assert_eq!(state(true).0, Sharing::Demoted);
        let (shared, listener) = state(false);
        assert!(shared == Sharing::Shared && listener.is_none(), "nobody else is to be told");
    }
}
