//! What a node of an allocation has on its host: made before it, and taken away after it, however it ended.

use std::cell::RefCell;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use model::NodeName;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tokio::process::ChildStdin;
use wire::control::Allocation;

use crate::identity;

/// Between two looks whether the node has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How often to look for what is mounted or begun meanwhile.
const ROUNDS: u32 = 20;

/// The node's folder, where it mounts, and its process.
pub struct Place {
    state: PathBuf,
    mounts: PathBuf,
    /// In the environment of what the command has started here.
    mark: String,
    /// What keeps it running.
    node: RefCell<Option<ChildStdin>>,
}

impl Place {
    /// Of the node `name`.
    pub fn of(allocation: &Allocation, name: &NodeName) -> Place {
        Place {
            state: allocation.node_folder(name),
            mounts: allocation.folder.clone(),
            mark: format!("FOREBAY_DIR={}", allocation.control_folder().display()),
            node: RefCell::default(),
        }
    }

    /// The node's folder.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// What the node's process says.
    pub fn log(&self) -> PathBuf {
        self.state.join("node.log")
    }

    /// Makes the folders.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn make(&self) -> Result<(), String> {
        let failed = |path: &Path, error: io::Error| format!("make the folder {}: {error}", path.display());
        let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        private(&self.state).map_err(|error| failed(&self.state, error))?;
        match private(&self.mounts) {
            // Hosts may share the folder that it is in.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_own(&self.mounts) => Ok(()),
            made => made.map_err(|error| failed(&self.mounts, error)),
        }
    }

    /// The node runs as long as `input` is open.
    pub fn note(&self, input: ChildStdin) {
        self.node.replace(Some(input));
    }

    /// Ends the node, within `patience`, and takes all of it away.
    ///
    /// # Errors
    /// What is left, in words.
    pub async fn clear(&self, patience: Duration) -> Result<(), String> {
        drop(self.node.take());
        let begin = Instant::now();
        while self.processes().any(|process| process.is_node) && begin.elapsed() < patience {
            tokio::time::sleep(LOOK).await;
        }
        for _ in 0..ROUNDS {
            self.mounted().iter().for_each(|place| unmount(place));
            let left: Vec<Process> = self.processes().collect();
            for process in &left {
                // It may have ended meanwhile.
                let _ = kill_process(process.id, Signal::KILL);
            }
            if left.is_empty() && self.mounted().is_empty() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        let removed = fs::remove_dir_all(&self.state);
        // A folder that another host uses, too, is the last one's to remove.
        remove_empty(&self.mounts, 2);
        if let Some(place) = self.mounted().first() {
            return Err(format!("{} is mounted still", place.display()));
        }
        if let Some(process) = self.processes().next() {
            return Err(format!("process {} has not ended", process.id.as_raw_nonzero()));
        }
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("remove {}: {error}", self.state.display()))
            }
            _ => Ok(()),
        }
    }

    /// Those of this user that were started for the node's folder, or by the command, whose mount is gone.
    fn processes(&self) -> impl Iterator<Item = Process> + use<'_> {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        numbers.filter_map(|entry| {
            let id = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let parts = |name| fs::read(entry.path().join(name)).ok();
            let (line, environment) = (parts("cmdline")?, parts("environ")?);
            let words: Vec<&str> = line.split(|byte| *byte == 0).flat_map(std::str::from_utf8).collect();
            let is_marked = environment.split(|byte| *byte == 0).any(|word| word == self.mark.as_bytes());
            let is_ours =
                is_marked || words.iter().skip(1).any(|word| Path::new(word).starts_with(&self.state));
            let is_node = words.first()?.ends_with("forebay-node");
            (is_ours && is_own(&entry.path())).then_some(Process { id, is_node })
        })
    }

    fn mounted(&self) -> Vec<PathBuf> {
        let all = disk::mount_table::mounts().unwrap_or_default();
        all.into_iter()
            .map(|mount| mount.mountpoint)
            .filter(|place| place.starts_with(&self.mounts))
            .collect()
    }
}

fn is_own(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
}

/// Out of the tree at once; whoever has files open there finds them gone when the process of the mount has ended.
fn unmount(place: &Path) {
    let mut command = if identity::is_root() {
        let mut command = Command::new("umount");
        command.args(["-l", "--"]);
        command
    } else {
        let mut command = Command::new("fusermount3");
        command.args(["-u", "-z", "--"]);
        command
    };
    // Whether it is gone is looked for next.
    let _ = command.arg(place).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Removes empty folders down to so many levels.
fn remove_empty(folder: &Path, levels: u32) {
    if levels > 0 {
        let below = fs::read_dir(folder).into_iter().flatten().flatten();
        below.for_each(|entry| remove_empty(&entry.path(), levels - 1));
    }
    let _ = fs::remove_dir(folder);
}

struct Process {
    id: Pid,
    is_node: bool,
}
