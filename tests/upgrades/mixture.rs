//! A cluster whose hosts have programs of two versions: n1 and n2 store, n3 and n4 mount.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tests::cluster::Outcome;
use tests::hosts::{Hosts, plain};
use tests::processes::{Process, wait_until, wait_until_told};
use tests::site::{HANGS_AFTER, ask};

use crate::job::Job;
use crate::release::Release;

/// Two of them store.
const NODES: usize = 4;

/// Space is given back in the background.
const EMPTY_WITHIN: Duration = Duration::from_secs(30);

/// The cluster; it ends with this.
pub struct Mixture {
    /// Its hosts.
    pub hosts: Hosts,
}

impl Mixture {
    /// Starts one in which everything is of the last release.
    #[track_caller]
    pub fn of_the_last_release() -> Mixture {
        Mixture::of_the_last_release_with("")
    }

    /// The same, with a line in the configuration of each node.
    #[track_caller]
    pub fn of_the_last_release_with(line: &str) -> Mixture {
        let programs = Release::Last.programs();
        let settings = [
            ("FOREBAY_CLUSTER_SLURM", "no"),
            ("FOREBAY_CLUSTER_NODE", line),
            ("FOREBAY_CLUSTER_PROGRAMS", plain(&programs)),
        ];
        let mixture = Mixture { hosts: Hosts::up(NODES, &settings) };
        ["head", "n1", "n2", "n3", "n4"].iter().for_each(|host| {
            Release::Last.assert_runs(&mixture.service(host));
        });
        mixture
    }

    /// The service of a host.
    #[track_caller]
    pub fn service(&self, host: &str) -> Process {
        if host == "head" { self.hosts.control() } else { self.hosts.node(host) }
    }

    /// Has other words in a node's configuration, which it reads when it starts.
    #[track_caller]
    pub fn configure(&self, node: &str, words: &str, others: &str) {
        let file = self.hosts.folder().join("etc").join(format!("{node}.toml"));
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains(words), "no {words} in\n{text}");
        fs::write(&file, text.replace(words, others)).unwrap();
    }

    /// Puts this version's programs in the place of those on a host, and restarts its service as a service manager
    /// does: other processes go on.
    #[track_caller]
    pub fn install(&self, host: &str, release: Release) {
        let (programs, installed) = (release.programs(), self.hosts.folder().join("bin"));
        // Each host has a table of mounts of its own: the others keep what they have.
        let mounted = self.hosts.on(host, &["mount", "--bind", plain(&programs), plain(&installed)]);
        assert!(mounted.status.success(), "{}", mounted.stderr);
        let old = self.service(host);
        old.signal(Signal::TERM);
        assert!(wait_until(HANGS_AFTER, || !old.is_alive()), "{host}'s service does not end");
        assert!(wait_until_told(HANGS_AFTER, || self.answers(host)), "{host}'s service does not come back");
        let new = self.service(host);
        assert_ne!(old, new);
        release.assert_runs(&new);
    }

    /// Whether the service of a host answers, and control knows it.
    fn answers(&self, host: &str) -> bool {
        let nodes = self.hosts.dwstat("nodes");
        let online = nodes.lines().skip(1).filter(|line| line.contains(" online ")).count() == NODES;
        let socket = self.hosts.folder().join("state").join(host).join("node.sock");
        online && (host == "head" || ask(&socket, "GET", "/v1/health", None).is_ok())
    }

    /// What copies for a stage as its coordinator, and the node that it does so on.
    #[track_caller]
    pub fn stage_worker(&self) -> (&'static str, Process) {
        let mut found = None;
        let of = |node| {
            let workers = self.hosts.processes("forebay-stage", &format!("/state/{node}/stages/"));
            workers.into_iter().next().map(|worker| (node, worker))
        };
        wait_until_told(HANGS_AFTER, || {
            found = ["n1", "n2"].into_iter().find_map(of);
            found.is_some()
        });
        found.expect("a stage has a worker")
    }

    /// What copies on a node for a stage that another one leads.
    #[track_caller]
    pub fn mover(&self, node: &str) -> Process {
        self.hosts.process("forebay-stage", &format!("/state/{node}/fragments/"))
    }

    fn mounts(&self, node: &str) -> Vec<Process> {
        self.hosts.processes("forebay-mount", &format!("/state/{node}/"))
    }

    /// A node's mounts are served by programs of this version.
    #[track_caller]
    pub fn assert_mounted_by(&self, node: &str, release: Release) {
        let mounts = self.mounts(node);
        assert!(!mounts.is_empty(), "nothing is mounted on {node}");
        mounts.iter().for_each(|mount| release.assert_runs(mount));
    }

    /// `kill -9` of what serves a node's mounts; waits for its successors.
    #[track_caller]
    pub fn kill_mounts(&self, node: &str) {
        let old = self.mounts(node);
        old.iter().for_each(Process::kill);
        let replaced = wait_until(HANGS_AFTER, || self.mounts(node).len() == old.len());
        assert!(replaced, "no successor for the mounts of {node}");
    }

    /// Has an operator change the key of a job's buffer.
    pub fn rekey(&self, job: &Job<'_>) -> Outcome {
        self.hosts.on("head", &[&self.hosts.program("forebay"), "rekey", job.token()])
    }

    /// Nothing is allocated or mounted.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let empty = wait_until_told(EMPTY_WITHIN, || self.hosts.leftovers().is_empty());
        assert!(empty, "left over:\n{}", self.hosts.leftovers());
    }
}

impl Drop for Mixture {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.hosts.print_logs(&["control", "n1", "n2", "n3", "n4"]);
            // What the test found is said by its own words.
            let _ended = self.hosts.script("down").stdout(Stdio::null()).status();
        } else {
            self.hosts.down();
        }
    }
}
