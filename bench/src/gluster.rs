//! GlusterFS from Debian, as an administrator would set it up, but with a management daemon of its own: its folders are
//! below one of ours, and it listens on a loopback address that nobody else uses.
//!
//! Outside of that folder it only uses `/var/run/gluster`, for its bricks' sockets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fuse::mount::unmount;
use tests::processes::wait_until;

use crate::cpu;

/// Where it listens: a volume's bricks must not be on `127.0.0.1`.
const ADDRESS: &str = "127.1.1.1";

const VOLUME: &str = "bench";

/// How long it may take to begin.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A volume that is served, until it is dropped.
pub struct Gluster {
    folder: PathBuf,
    daemon: Child,
    bricks: Vec<PathBuf>,
    mountpoints: Vec<PathBuf>,
}

impl Gluster {
    /// Starts one in `folder`, distributed over `bricks` bricks, and mounts it `mounts` times.
    pub fn start(folder: &Path, bricks: usize, mounts: usize) -> Result<Gluster> {
        for name in ["work", "run", "log"] {
            std::fs::create_dir(folder.join(name))?;
        }
        let daemon =
            management_daemon(folder).spawn().context("start glusterd (scripts/install-deps peers)")?;
        let bricks = (0..bricks).map(|n| folder.join(format!("brick-{n}"))).collect();
        let mut gluster = Gluster { folder: folder.to_owned(), daemon, bricks, mountpoints: Vec::new() };
        let up = wait_until(START_LIMIT, || gluster.command(&["volume", "list"]).is_ok());
        ensure!(up, "glusterd does not answer; its log is in {}", folder.join("log").display());
        let bricks: Vec<String> =
            gluster.bricks.iter().map(|brick| format!("{ADDRESS}:{}", brick.display())).collect();
        let bricks = bricks.iter().map(String::as_str);
        // By force: the bricks need not be file systems of their own.
        let create: Vec<&str> =
            ["volume", "create", VOLUME].into_iter().chain(bricks).chain(["force"]).collect();
        gluster.command(&create)?;
        gluster.command(&["volume", "start", VOLUME])?;
        (0..mounts).try_for_each(|n| gluster.mount(&folder.join(format!("mnt-{n}"))))?;
        Ok(gluster)
    }

    /// The folders in which its files are.
    pub fn bricks(&self) -> &[PathBuf] {
        &self.bricks
    }

    /// Where it is mounted.
    pub fn mountpoints(&self) -> &[PathBuf] {
        &self.mountpoints
    }

    /// CPU seconds that the bricks, the mounts and the daemon have used so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        cpu::seconds(cpu::processes("gluster", &self.folder)?)
    }

    fn mount(&mut self, mountpoint: &Path) -> Result<()> {
        std::fs::create_dir(mountpoint)?;
        let mut log =
            self.folder.join("log").join(mountpoint.file_name().context("it has a name")?).into_os_string();
        log.push(".log");
        // It goes to the background when it is mounted.
        let status = Command::new("glusterfs")
            .args([
                "--process-name",
                "fuse",
                "--volfile-id",
                VOLUME,
                "--volfile-server",
                ADDRESS,
                "--log-file",
            ])
            .args([log.as_os_str(), mountpoint.as_os_str()])
            .status()?;
        ensure!(status.success(), "glusterfs cannot mount at {}", mountpoint.display());
        self.mountpoints.push(mountpoint.to_owned());
        Ok(())
    }

    /// `gluster ARGUMENTS`, to this daemon.
    fn command(&self, arguments: &[&str]) -> Result<()> {
        let output = Command::new("gluster")
            .arg("--mode=script")
            .arg(format!("--glusterd-sock={}", self.folder.join("sock").display()))
            .arg(format!("--log-file={}", self.folder.join("log/cli").display()))
            .args(arguments)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "gluster {} says: {}", arguments.join(" "), said.trim());
        Ok(())
    }
}

impl Drop for Gluster {
    fn drop(&mut self) {
        for mountpoint in &self.mountpoints {
            drop(unmount(mountpoint));
        }
        // Ends the bricks.
        drop(self.command(&["volume", "stop", VOLUME, "force"]));
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

fn management_daemon(folder: &Path) -> Command {
    let option =
        |name: &str, value: &str| ["--xlator-option".to_owned(), format!("management.{name}={value}")];
    let path = |name: &str| folder.join(name).display().to_string();
    let mut command = Command::new("glusterd");
    command
        .args(["--no-daemon", "--pid-file", &path("pid"), "--log-file", &path("log/glusterd")])
        .args(option("working-directory", &path("work")))
        .args(option("run-directory", &path("run")))
        .args(option("glusterd-sockfile", &path("sock")))
        .args(option("transport.socket.bind-address", ADDRESS))
        // Puts the bricks' logs into this folder.
        .args(option("cluster-test-mode", &path("log")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
