//! Telling a mount that others use its namespace, too.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use daemon::error::site;
use wire::control::{ApiError, ErrorCode};

use super::Mounts;
use crate::folder::of_id;
use crate::mount_table::MountTable;

/// The file that tells later processes of the mount, and where the present one listens, as `mount::demotion` has them.
const MARK: &str = "shared";
const SOCKET: &str = "share.sock";

/// How long a mount may take to know: its process may just be followed by another.
const KNOWN_WITHIN: Duration = Duration::from_secs(30);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

impl<T: MountTable> Mounts<T> {
    /// Replies when mount `id` believes nothing any more that others may change; at once where there is none, or where
    /// it never did.
    ///
    /// # Errors
    /// It cannot be told, or the node's disk failed.
    pub(crate) async fn share(&self, id: &str) -> Result<(), ApiError> {
        let folder = of_id(&self.setting.folder, id)?;
        let Some(handle) = self.lock().get(id).cloned().filter(|handle| handle.spec.exclusive) else {
            return Ok(());
        };
        let log = folder.join("log");
        let failed = |error: io::Error| {
            let message = format!("tell mount {id} that its namespace is shared: {error}");
            site(
                ErrorCode::MountNotTold,
                message,
                format!("look into {}; the stage can be asked for again", log.display()),
            )
        };
        std::fs::write(folder.join(MARK), "").map_err(failed)?;
        let begin = Instant::now();
        loop {
            let socket = folder.join(SOCKET);
            let told = tokio::task::spawn_blocking(move || tell(&socket)).await.map_err(io::Error::other);
            match told.and_then(|told| told) {
                Ok(()) => return Ok(()),
                Err(_) if handle.view.borrow().end.is_some() => return Ok(()),
                Err(error) if begin.elapsed() > KNOWN_WITHIN => return Err(failed(error)),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

fn tell(socket: &Path) -> io::Result<()> {
    let mut socket = UnixStream::connect(socket)?;
    socket.set_read_timeout(Some(KNOWN_WITHIN))?;
    let mut said = [0; 6];
    socket.read_exact(&mut said)?;
    if said == *b"shared" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
