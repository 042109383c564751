//! Movers: processes that copy on this storage node for a stage whose coordinator is on another.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `program` on the connection `socket`, for the fragment whose specification is the file `fragment`, until it ends.
///
/// It starts with the rights of this process, so that it can read that file, and takes on those of the owner of the
/// namespace. Its log is this process's.
///
/// # Errors
/// It cannot be started, or failed.
pub fn run(program: &Path, socket: OwnedFd, fragment: &Path, namespace: u32) -> io::Result<()> {
    let mut command = Command::new(program);
    command.arg("--fragment").arg(fragment).arg("--namespace").arg(namespace.to_string());
    command.stdin(socket).stdout(Stdio::null()).current_dir("/");
    let mut child =
        command.spawn().map_err(|e| io::Error::new(e.kind(), format!("start {}: {e}", program.display())))?;
    let exit = child.wait()?;
    if exit.success() { Ok(()) } else { Err(io::Error::other(format!("the mover failed ({exit})"))) }
}
