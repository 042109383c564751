//! The end of being alone: others use a namespace that this mount had for itself, as stages that are asked for during a
//! job do.
//!
//! The node writes [`MARK`] beside the mount's specification, for every process of this mount to come, and then
//! connects to [`SOCKET`]: what it reads there was written when nothing is believed any more that others may change.

use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::kernel::Names;
use crate::namespace::Alone;

/// The file that says so.
pub const MARK: &str = "shared";

/// Where this process is told.
pub const SOCKET: &str = "share.sock";

/// Begins to listen, in `folder`. Before it is looked whether the mark is there: who does not find the socket has
/// written the mark in time.
///
/// # Errors
/// What the file system or the socket says.
pub fn listen(folder: &Path) -> io::Result<UnixListener> {
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
pub fn serve(listener: UnixListener, alone: Alone, names: Names) -> io::Result<()> {
    std::thread::Builder::new().name("sharing".into()).spawn(move || {
        for socket in listener.incoming() {
            alone.end();
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
pub fn is_marked(folder: &Path) -> bool {
    disk::exists(&folder.join(MARK)).unwrap_or(true)
}
