//! A node service alone, with private volumes on a medium of this machine: no control, no workload manager. Needs root.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::program_folder;
use crate::processes::{mounts_of, of_folder, wait_until};

/// The user of the volumes; nobody has to have the number.
pub const USER: u32 = 4711;

/// A node service with its folders: its volumes, and a PFS.
pub struct LocalNode {
    root: PathBuf,
    node: Option<Child>,
    /// Removed last.
    _folder: Option<tempfile::TempDir>,
}

impl LocalNode {
    /// Starts one whose volumes are on the flash of `medium`, of `capacity`.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(medium: &str, capacity: &str) -> LocalNode {
        let folder = folder_in(medium);
        let mut site = LocalNode::of(folder.path(), capacity, "");
        site._folder = Some(folder);
        site.start_node();
        site
    }

    /// Starts one in the folder `root`, which may be that of an earlier one, with more lines in its configuration.
    ///
    /// # Panics
    /// It does not start.
    pub fn start_in(root: &Path, capacity: &str, config: &str) -> LocalNode {
        let mut site = LocalNode::of(root, capacity, config);
        site.start_node();
        site
    }

    /// The last words of one with these lines in its configuration, which does not start.
    ///
    /// # Panics
    /// It does.
    pub fn refusal(medium: &str, config: &str) -> String {
        let folder = folder_in(medium);
        let site = LocalNode::of(folder.path(), "64MiB", config);
        let ended = site.command().status().unwrap();
        assert!(!ended.success());
        site.log().lines().last().unwrap_or_default().to_owned()
    }

    fn of(root: &Path, capacity: &str, more: &str) -> LocalNode {
        // Users pass through it.
        fs::create_dir_all(root.join("pfs")).unwrap();
        rustix::fs::chmod(root, rustix::fs::Mode::from_raw_mode(0o755)).unwrap();
        std::os::unix::fs::chown(root.join("pfs"), Some(USER), Some(USER)).unwrap();
        let config = format!(
            "name = \"n1\"\nroles = [\"compute\"]\nstate_dir = \"{r}/state\"\ncontrol = \"{r}/none.sock\"\n\
             mount_root = \"{r}/mnt\"\nlocal_root = \"{r}/bb\"\nlocal_capacity = \"{capacity}\"\n\
             local_reserve = \"16MiB\"\n{more}",
            r = root.display()
        );
        fs::write(root.join("node.toml"), config).unwrap();
        LocalNode { root: root.to_owned(), node: None, _folder: None }
    }

    /// Its process.
    ///
    /// # Panics
    /// It was ended.
    pub fn pid(&self) -> u32 {
        self.node.as_ref().unwrap().id()
    }

    /// Whether it runs.
    ///
    /// # Panics
    /// It was ended.
    pub fn lives(&mut self) -> bool {
        self.node.as_mut().unwrap().try_wait().unwrap().is_none()
    }

    /// Its folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn command(&self) -> Command {
        let log = fs::File::options().append(true).create(true).open(self.root().join("log")).unwrap();
        let mut command = Command::new(program_folder().join("forebay-node"));
        command.arg("--config").arg(self.root().join("node.toml")).stdout(Stdio::null()).stderr(log);
        command
    }

    fn start_node(&mut self) {
        self.node = Some(self.command().spawn().unwrap());
        let answers = || self.local(&["list"]).0;
        assert!(wait_until(Duration::from_secs(20), answers), "{}", self.log());
    }

    /// Everything of the node is gone and nothing is mounted, as after a power cut; then it starts again.
    ///
    /// # Panics
    /// It does not.
    pub fn reboot(&mut self) {
        let mut node = self.node.take().unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
        self.end_drainers();
        self.unmount();
        self.start_node();
    }

    fn end_drainers(&self) {
        let drainers = || {
            let mut all = of_folder(self.root());
            all.retain(|process| process.program() == "forebay-drain");
            all
        };
        drainers().iter().for_each(|drainer| drainer.kill());
        assert!(wait_until(Duration::from_secs(10), || drainers().is_empty()));
    }

    fn unmount(&self) {
        for point in mounts_of(self.root()) {
            Command::new("umount").arg("--lazy").arg(point).status().unwrap();
        }
    }

    /// `forebay local WORDS...`: whether it succeeded, and what it said.
    ///
    /// # Panics
    /// The program is not there.
    pub fn local(&self, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(program_folder().join("forebay"));
        command.arg("local").args(words).env("FOREBAY_NODE_SOCKET", self.root().join("state/node.sock"));
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// Makes the volume of the job `id`; where its user finds it.
    ///
    /// # Panics
    /// The node refuses.
    #[track_caller]
    pub fn create(&self, id: &str) -> PathBuf {
        self.create_for(id, "ada")
    }

    /// Makes the volume of the job `id` of the user with this name; where that user finds it.
    ///
    /// # Panics
    /// The node refuses.
    #[track_caller]
    pub fn create_for(&self, id: &str, user: &str) -> PathBuf {
        let uid = USER.to_string();
        let (made, said) = self.local(&["create", id, "--user", user, "--uid", &uid]);
        assert!(made, "{said}\n{}", self.log());
        PathBuf::from(said.trim())
    }

    /// `forebay drain WORDS...`, as the user in the job.
    ///
    /// # Panics
    /// The program is not there.
    pub fn drain(&self, words: &[&str]) -> (bool, String) {
        let mut command = self.drain_command(words);
        let output = command.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    /// The same as a command.
    pub fn drain_command(&self, words: &[&str]) -> Command {
        let volume = self.root().join("bb/ada");
        let mut command = Command::new("setpriv");
        command.arg(format!("--reuid={USER}")).arg(format!("--regid={USER}")).arg("--clear-groups");
        command.arg(program_folder().join("forebay")).arg("drain").args(words);
        command.env("FOREBAY_LOCAL", &volume).env("PERSIST_DIR", &volume);
        command.env("PFS_DIR", self.root().join("pfs")).env("SLURM_JOB_ID", "7");
        command
    }

    /// The node's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.root().join("log")).unwrap_or_default()
    }

    /// Waits until no volume is left, and nothing of one.
    ///
    /// # Panics
    /// Something is left.
    #[track_caller]
    pub fn wait_until_discarded(&self) {
        // The folder first: asking the node costs a process, and the processor that is waited for.
        let locals = self.root().join("state/locals");
        let is_gone = || fs::read_dir(&locals).unwrap().count() == 0 && self.local(&["list"]).1.is_empty();
        assert!(wait_until(Duration::from_secs(30), is_gone), "{}\n{}", self.local(&["list"]).1, self.log());
        assert!(mounts_of(self.root()).is_empty() && !self.root().join("bb/ada").exists());
    }
}

/// A folder of a test's own on `medium`.
///
/// # Panics
/// There is no room.
pub fn folder_in(medium: &str) -> tempfile::TempDir {
    tempfile::Builder::new().prefix("forebay-local-").tempdir_in(medium).expect("there is room")
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        self.end_drainers();
        self.unmount();
    }
}
