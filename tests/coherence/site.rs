//! The cluster of the tests, and the buffer that is mounted on all its nodes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tests::hosts::Hosts;
use tests::processes::{Process, wait_until};
use tests::runner;

use crate::folder::Folder;

/// Compute nodes; three of them store.
pub const NODES: usize = 5;

/// The grace period of the cluster; 120 s where nobody waits for its end.
pub const GRACE: Duration = Duration::from_secs(6);

/// Space is given back in the background.
const EMPTY_WITHIN: Duration = Duration::from_secs(20);

/// A running cluster with a buffer.
pub struct Site {
    /// Its hosts.
    pub hosts: Hosts,
    /// Where the buffer is mounted, for processes on the nodes.
    pub mountpoint: PathBuf,
    numbers: AtomicU32,
}

impl Site {
    /// Starts it and mounts the buffer on every node.
    pub fn up() -> Site {
        let grace = GRACE.as_secs().to_string();
        let settings = [("FOREBAY_CLUSTER_SLURM", "no"), ("FOREBAY_CLUSTER_GRACE", grace.as_str())];
        let hosts = Hosts::up(NODES, &settings);
        let mountpoint = hosts.mount_buffer("1", "");
        Site { hosts, mountpoint, numbers: AtomicU32::new(0) }
    }

    /// A new folder of the buffer, for one test.
    pub fn folder(&self) -> Folder<'_> {
        let name = format!("test-{}", self.numbers.fetch_add(1, Ordering::Relaxed));
        fs::create_dir(self.buffer(0).join(&name)).expect("the buffer is writable");
        Folder::new(self, name)
    }

    /// The buffer as a node has it mounted, for this process.
    pub fn buffer(&self, node: usize) -> PathBuf {
        self.hosts.seen_from(&self.hosts.names()[node], &self.mountpoint)
    }

    /// A command on a node, still to be started.
    pub fn command(&self, node: usize, words: &[&str]) -> Command {
        let mut command = self.hosts.script("on");
        command.arg(&self.hosts.names()[node]).args(words);
        command
    }

    /// Runs a command on a node; it must succeed. What it printed.
    #[track_caller]
    pub fn run(&self, node: usize, words: &[&str]) -> String {
        let outcome = self.hosts.on(&self.hosts.names()[node], words);
        assert!(outcome.status.success(), "{words:?}:\n{}{}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }

    /// The process that serves the buffer's mount on a node.
    pub fn mount_process(&self, node: usize) -> Process {
        self.hosts.process("forebay-mount", &format!("/state/{}/", self.hosts.names()[node]))
    }

    /// What that process and its predecessors logged.
    pub fn mount_log(&self, node: usize) -> String {
        let mounts = self.hosts.folder().join("state").join(&self.hosts.names()[node]).join("mounts");
        let logs = fs::read_dir(mounts).expect("the node has a mount").flatten();
        logs.map(|mount| fs::read_to_string(mount.path().join("log")).expect("it is text")).collect()
    }

    /// Takes a node's cable out (`down`) or puts it in (`up`).
    pub fn set_link(&self, node: usize, state: &str) {
        let outcome =
            self.hosts.on("head", &["ip", "link", "set", &format!("v{}", self.hosts.names()[node]), state]);
        assert!(outcome.status.success(), "{}", outcome.stderr);
    }

    fn used_bytes(&self) -> u64 {
        let stat = rustix::fs::statvfs(self.buffer(0)).expect("the buffer is mounted");
        (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    }
}

impl runner::Site for Site {
    /// Removing what is there must give all space back: no node keeps a file alive.
    fn assert_nothing_left(&self) {
        for entry in fs::read_dir(self.buffer(0)).expect("the buffer is mounted").flatten() {
            fs::remove_dir_all(entry.path()).expect("tests leave only what can be removed");
        }
        let empty = wait_until(EMPTY_WITHIN, || self.used_bytes() == 0);
        assert!(empty, "{} bytes are still in use", self.used_bytes());
    }

    fn print_logs(&self) {
        self.hosts.print_logs(&["control", "n1", "n2", "n3", "n4", "n5"]);
    }

    fn down(&self) {
        self.hosts.down();
    }
}
