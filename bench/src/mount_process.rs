//! A process that serves a mount until it is unmounted, and says when it is there.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fuse::mount::unmount;
use tests::processes::wait_until;

use crate::cpu;

/// The line that such a process prints when it is mounted: `forebay-mount` and our own.
pub const MOUNTED: &str = "mounted";

/// How long such a process may take to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// A mount with its process, until it is dropped.
pub struct MountProcess {
    child: Child,
    mountpoint: PathBuf,
}

impl MountProcess {
    /// Starts `command`, which mounts at `mountpoint`, and waits until it has.
    pub fn start(mut command: Command, mountpoint: &Path) -> Result<MountProcess> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", command.get_program().display()))?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is a pipe")).read_line(&mut line)?;
        let process = MountProcess { child, mountpoint: mountpoint.to_owned() };
        ensure!(line.trim_end() == MOUNTED, "{} does not mount", command.get_program().display());
        Ok(process)
    }

    /// CPU seconds that the process has used so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu::seconds([self.child.id().cast_signed()])
    }

    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }
}

impl Drop for MountProcess {
    fn drop(&mut self) {
        drop(unmount(&self.mountpoint));
        // Without its mount the process ends by itself; but a mount namespace that was made meanwhile may hold the
        // mount.
        wait_until(END_LIMIT, || matches!(self.child.try_wait(), Ok(Some(_))));
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
