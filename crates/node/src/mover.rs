//! Movers: processes that copy on this storage node for a stage whose coordinator is on another.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::process::{Child, Command};

use crate::stages::shares::Shares;
use crate::stages::worker::Orders;

/// What movers are started with.
#[derive(Clone, Debug)]
pub(crate) struct Movers {
    /// The program, `forebay-stage`.
    pub program: PathBuf,
    /// The bandwidth that they share with this node's own stages.
    pub shares: Arc<Shares>,
    /// Whether they may have root's rights, for stages of root's.
    pub as_root: bool,
    /// Folders below which they may reach the PFS; none: all of it.
    pub pfs_roots: Vec<PathBuf>,
}

impl Movers {
    /// Runs one on the connection `socket`, for the fragment whose specification is the file `fragment`, until it ends.
    ///
    /// It starts with the rights of this process, so that it can read that file, and takes on those of the owner of the
    /// namespace. Its log is this process's.
    ///
    /// # Errors
    /// It cannot be started, or failed.
    pub(crate) async fn run(&self, socket: OwnedFd, fragment: &Path, namespace: u32) -> io::Result<()> {
        let exit = self.pace(self.start(socket, fragment, namespace)?).await?;
        if exit.success() { Ok(()) } else { Err(io::Error::other(format!("the mover failed ({exit})"))) }
    }

    fn start(&self, socket: OwnedFd, fragment: &Path, namespace: u32) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command.arg("--fragment").arg(fragment).arg("--namespace").arg(namespace.to_string());
        if self.as_root {
            command.arg("--as-root");
        }
        for root in &self.pfs_roots {
            command.arg("--pfs-root").arg(root);
        }
        // Both directions of the connection are its standard output; its orders come as a worker's do.
        command.stdin(Stdio::piped()).stdout(socket).current_dir("/");
        command
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("start {}: {e}", self.program.display())))
    }

    /// Tells it how fast it may go, now and whenever that changes, until it ends.
    async fn pace(&self, mut mover: Child) -> io::Result<ExitStatus> {
        let mut share = self.shares.join();
        let mut orders = Orders::to(mover.stdin.take());
        loop {
            orders.give(&share.of_mover()).await;
            tokio::select! {
                exit = mover.wait() => return exit,
                () = share.changed() => {}
            }
        }
    }
}
