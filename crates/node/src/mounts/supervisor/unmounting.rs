//! The end of a mount that is not wanted any more.
//!
//! **Invariant:** a mount is forgotten only when its process has ended, nothing of ours is mounted at its place, and
//! its folder is removed. Whoever hears that it is unmounted goes on with what nobody may write to any more.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use daemon::error::site;
use wire::control::{ApiError, ErrorCode};

use super::{Stuck, Supervisor, Wanted};
use crate::keep;
use crate::mount_table::MountTable;
use crate::process::Process;

kept::own_forms!(super::Kept);

/// How long a mount process may take to end once nobody is waited for any more. More than it gives the storage nodes to
/// take what mappings stored, and to hear of its end.
const ENDED_WITHIN: Duration = Duration::from_secs(11);

/// What a mount process says it could not write back, in its folder.
const UNWRITTEN: &str = "unwritten";

/// How many mounts on top of each other are taken away; more would be somebody else's doing.
const STACKED_MAX: usize = 8;

/// Pause before it is tried again to unmount what nobody asks for.
const RETRY: Duration = Duration::from_secs(10);

impl<T: MountTable> Supervisor<T> {
    /// Unmounts and forgets the mount. What fails is told to whoever asked for it, and tried again: until the mount is
    /// gone it has its supervisor.
    pub(super) async fn forget(&mut self, failed: Option<&ApiError>) {
        loop {
            let asked = self.orders.borrow_and_update().asked;
            let Err(error) = self.unmount().await else { return };
            let error = self.still_there(failed, &error);
            tracing::error!(mount = self.spec.id, %error, "not unmounted");
            self.show_error(&error.message);
            self.shown.send_modify(|view| view.stuck = Some(Stuck { asked, error }));
            tokio::select! {
                Ok(()) = self.orders.changed() => {}
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }

    /// Ends the process, clears the mount point and removes what is kept of the mount.
    async fn unmount(&mut self) -> io::Result<()> {
        self.read_kept()?;
        self.let_go();
        if let Some(process) = self.living().await
            && !self.ends_in_time(&process).await
        {
            tracing::warn!(mount = self.spec.id, "does not end, detach it");
            if let Err(error) = self.clear().await {
                tracing::warn!(mount = self.spec.id, %error, "not detached, its process is ended all the same");
            }
            // Whatever is left of the mount, nobody writes any more.
            process.kill();
            process.ended().await;
        }
        self.pass_on_losses();
        self.clear().await?;
        if self.kept.made_folder {
            self.remove_folder();
        }
        keep::remove(&self.folder)
    }

    /// The mount's own log goes with its folder.
    fn pass_on_losses(&self) {
        if let Ok(lost) = std::fs::read_to_string(self.folder.join(UNWRITTEN)) {
            tracing::error!(mount = self.spec.id, mountpoint = %self.spec.mountpoint.display(), "{lost}");
        }
    }

    /// Not empty only if something was written while a lost mount was not back yet: that is kept, and told.
    fn remove_folder(&self) {
        if let Err(error) = std::fs::remove_dir(&self.spec.mountpoint)
            && error.kind() != io::ErrorKind::NotFound
        {
            let mountpoint = self.spec.mountpoint.display();
            tracing::error!(%mountpoint, %error, "what was written below the mount while it was lost is still there");
        }
        // The folder above is the token's; the last of its mounts takes it along.
        let _ = self.spec.mountpoint.parent().map(std::fs::remove_dir);
    }

    /// Asks the process to end: whether it does. Files may be open as long as the orders say; they may become more
    /// urgent meanwhile.
    async fn ends_in_time(&mut self, process: &Process) -> bool {
        let mut orders = self.orders.clone();
        process.terminate();
        loop {
            let limit = match orders.borrow_and_update().wanted {
                // Where the mount never came to be, nothing is open.
                Wanted::Mounted => Duration::ZERO,
                Wanted::UnmountedWithin(limit) => limit,
            };
            tokio::select! {
                biased;
                () = process.ended() => return true,
                () = tokio::time::sleep(limit) => break,
                // Every change is to less time, so that beginning anew does not add up.
                Ok(()) = orders.changed() => {}
            }
        }
        process.interrupt();
        tokio::time::timeout(ENDED_WITHIN, process.ended()).await.is_ok()
    }

    /// Takes away whatever of ours is mounted at the mount point.
    pub(super) async fn clear(&self) -> io::Result<()> {
        if !self.kept.launched {
            return Ok(());
        }
        if let Some(process) = &self.kept.process {
            process.helpers_ended().await;
        }
        let (setting, mountpoint) = (Arc::clone(&self.setting), self.spec.mountpoint.clone());
        let cleared = tokio::task::spawn_blocking(move || clear(&setting.table, &mountpoint)).await;
        cleared.map_err(io::Error::other)?
    }

    fn still_there(&self, failed: Option<&ApiError>, error: &io::Error) -> ApiError {
        let before = failed.map_or_else(String::new, |failed| format!("{}; then ", failed.message));
        let (mountpoint, folder) = (self.spec.mountpoint.display(), self.folder.display());
        site(
            ErrorCode::UnmountFailed,
            format!("{before}unmount {mountpoint}: {error}"),
            format!(
                "mend that, and ask again: the node also tries by itself. What cannot be read in {folder} can be \
                 removed once the process of forebay-mount that has this folder in its command line has ended, \
                 and nothing is mounted at {mountpoint}"
            ),
        )
    }
}

fn clear(table: &impl MountTable, mountpoint: &Path) -> io::Result<()> {
    for _ in 0..STACKED_MAX {
        if !table.is_mounted(mountpoint)? {
            return Ok(());
        }
        table.detach(mountpoint)?;
    }
    if table.is_mounted(mountpoint)? {
        Err(io::Error::other("something mounts there again and again"))
    } else {
        Ok(())
    }
}
