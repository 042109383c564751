//! The end of a mount: who is waited for, and what the storage nodes are told.
//!
//! ```text
//! SIGTERM                out of the tree at once; ends when no file is open any more
//! SIGINT                 out of the tree at once; ends, and cuts off whoever has a file open
//! unmounted by somebody  ends when no file is open any more
//! ```
//!
//! Out of the tree is not gone: every mount namespace that was made meanwhile has a copy of the mount, which the kernel
//! keeps for as long as any process is in it. Nobody waits for those: the mount ends with this process, and copies of
//! it fail.
//!
//! Whoever is cut off loses nothing that it stored through a mapping before: the kernel writes that back first. Storage
//! nodes that hang are not waited for: then [`UNWRITTEN`] says that something is lost, which the supervisor passes on.
//!
//! **Invariant:** whatever ended the mount, the storage nodes hear that the session ends, or it is logged that they did
//! not.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use fuse::session::Session;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::farewell::Farewell;
use crate::kernel::WriteBack;
use crate::ledger::Ledger;

/// Between two looks whether a file is open.
const PERIOD: Duration = Duration::from_millis(5);

/// Who closed a file a moment ago is not cut off: the kernel tells of it a little later.
const LATE_CLOSES: Duration = Duration::from_millis(100);

/// How long what mappings stored may take to be written back. The kernel lets a mount have little of it at a time.
const WRITTEN_BACK_WITHIN: Duration = Duration::from_secs(5);

/// The file beside the ledger that says what of mappings is lost.
const UNWRITTEN: &str = "unwritten";

/// How long the storage nodes may take to hear that the session ends.
const FAREWELL_WITHIN: Duration = Duration::from_secs(3);

/// What may end a mount.
pub struct Ends {
    served: JoinHandle<io::Result<()>>,
    unmounted: JoinHandle<()>,
    terminate: Signal,
    interrupt: Signal,
    mountpoint: PathBuf,
    ledger: Arc<Ledger>,
    write_back: WriteBack,
    unwritten: PathBuf,
}

impl Ends {
    /// Begins to look out for them. Inside a tokio runtime.
    ///
    /// # Errors
    /// No signal can be waited for.
    pub fn of(mounted: (Session, WriteBack), spec: &Path, mountpoint: &Path) -> io::Result<Ends> {
        let (session, write_back) = mounted;
        Ok(Ends {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            served: tokio::task::spawn_blocking(move || session.join()),
            unmounted: tokio::spawn(unmounted(mountpoint.to_owned())),
            mountpoint: mountpoint.to_owned(),
            ledger: write_back.ledger(),
            write_back,
            unwritten: spec.with_file_name(UNWRITTEN),
        })
    }

    /// Returns when the mount has ended, or nobody is waited for any more.
    ///
    /// # Errors
    /// Why it is not served any more.
    pub async fn wait(mut self) -> io::Result<()> {
        let mut look = tokio::time::interval(PERIOD);
        let (mut leaving, mut cut_off_at) = (false, None);
        loop {
            tokio::select! {
                ended = &mut self.served => return ended.map_err(io::Error::other)?,
                _ = self.terminate.recv() => self.leave_the_tree(),
                _ = self.interrupt.recv() => {
                    self.leave_the_tree();
                    cut_off_at = Some(Instant::now() + LATE_CLOSES);
                }
                _ = &mut self.unmounted, if !leaving => leaving = true,
                _ = look.tick(), if leaving => {
                    let is_cut_off = cut_off_at.is_some_and(|at| Instant::now() >= at);
                    if !self.ledger.is_any_open() {
                        return Ok(());
                    }
                    if is_cut_off {
                        self.write_back().await;
                        return Ok(());
                    }
                }
            }
        }
    }

    /// What is stored before this begins is on the storage nodes when it ends, or it is said that it is not.
    async fn write_back(self) {
        let (write_back, open) = (self.write_back, self.ledger.held().opens.len());
        let written = tokio::task::spawn_blocking(move || write_back.run());
        let lost = match tokio::time::timeout(WRITTEN_BACK_WITHIN, written).await {
            Ok(Ok(Ok(()))) => return,
            Ok(Ok(Err(error))) => error,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("storage nodes did not answer within {} s", WRITTEN_BACK_WITHIN.as_secs()),
        };
        let lost = format!(
            "{open} files were open when the mount was taken away, and what programs stored through mappings (mmap) of \
             them may be lost: {lost}"
        );
        tracing::error!("{lost}");
        if let Err(error) = std::fs::write(&self.unwritten, lost) {
            tracing::warn!(path = %self.unwritten.display(), %error, "cannot tell the node of that");
        }
    }

    /// Where it cannot be, whoever sent the signal will take it away.
    fn leave_the_tree(&self) {
        if let Err(error) = fuse::mount::unmount(&self.mountpoint) {
            tracing::warn!(mountpoint = %self.mountpoint.display(), %error, "cannot unmount");
        }
    }
}

/// Returns when somebody has unmounted what is mounted at a place now.
async fn unmounted(mountpoint: PathBuf) {
    let wait = move || match fuse::table::is_mounted(&mountpoint)? {
        true => fuse::table::wait_until_unmounted(&mountpoint).map(|()| true),
        // The process that went before was unmounted already: the kernel tells when the last file is closed.
        false => Ok(false),
    };
    match tokio::task::spawn_blocking(wait).await.map_err(io::Error::other).and_then(|seen| seen) {
        Ok(true) => return,
        Ok(false) => {}
        Err(error) => tracing::warn!(%error, "cannot see whether somebody unmounts this mount"),
    }
    std::future::pending().await
}

/// Tells the storage nodes, but does not wait for one that hangs.
pub fn bid(farewell: Farewell) {
    let (done, said) = mpsc::channel();
    let said = std::thread::Builder::new()
        .name("farewell".into())
        .spawn(move || {
            farewell.say();
            // Nobody may wait for it any more.
            let _told = done.send(());
        })
        .map(|_| said.recv_timeout(FAREWELL_WITHIN));
    if !matches!(said, Ok(Ok(()))) {
        tracing::warn!(
            "a storage node does not answer: what was held back and not sent is lost, and files that were open here are \
             closed after the grace period"
        );
    }
}
