//! A cluster without Slurm, its users, and buffers that they share.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cluster::Outcome;
use crate::hosts::{Hosts, plain};
use crate::processes::wait_until;
use crate::runner;

/// Two of them store.
const NODES: usize = 4;

/// Control asks nodes each second, and believes one that was killed a moment after its clients do.
const ONLINE_WITHIN: Duration = Duration::from_secs(30);

/// Space is given back in the background.
const EMPTY_WITHIN: Duration = Duration::from_secs(30);

/// Ada has something to lose, grace tries to get at it.
pub use crate::hosts::{ADA, GRACE, User};

/// A running cluster.
pub struct Site {
    hosts: Hosts,
    numbers: AtomicU32,
}

impl Deref for Site {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}

impl runner::Site for Site {
    fn assert_nothing_left(&self) {
        let empty = wait_until(EMPTY_WITHIN, || self.leftovers().is_empty());
        assert!(empty, "left over:\n{}", self.leftovers());
    }

    fn print_logs(&self) {
        self.hosts.print_logs(&["control", "n1", "n2", "n3", "n4"]);
    }

    fn down(&self) {
        self.hosts.down();
    }
}

/// A user's session that uses a persistent buffer, mounted on n3.
pub struct Session<'a> {
    site: &'a Site,
    /// Its token.
    pub token: String,
    user: User,
    script: PathBuf,
    names: PathBuf,
    /// Where the buffer is mounted there.
    pub mountpoint: PathBuf,
}

impl Site {
    /// Starts it.
    pub fn up() -> Site {
        let limits = ("FOREBAY_CLUSTER_NODE", "pfs_roots = [\"/var/tmp\"]");
        let settings = [("FOREBAY_CLUSTER_SLURM", "no"), ("FOREBAY_CLUSTER_CAPACITY", "1GiB"), limits];
        Site { hosts: Hosts::up(NODES, &settings), numbers: AtomicU32::new(100) }
    }

    /// A name that nothing else has.
    pub fn name(&self, of: &str) -> String {
        format!("{of}{}", self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// A folder of a user's on the parallel file system.
    pub fn pfs(&self, user: User) -> PathBuf {
        let folder = self.folder().join("pfs").join(user.name).join(self.name("f"));
        fs::create_dir_all(&folder).expect("the folder is ours");
        chown(&folder, Some(user.id), Some(user.id)).expect("root may");
        folder
    }

    /// Where the `forebay-node` of a host keeps its state.
    pub fn state_of(&self, host: &str) -> PathBuf {
        self.folder().join("state").join(host)
    }

    /// How many nodes control believes.
    pub fn online(&self) -> usize {
        let status = self.on("head", &[&self.program("forebay"), "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap_or_default();
        let nodes = status["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().filter(|node| node["online"] == true).count()
    }

    /// A persistent buffer of ada's that all users share, on both nodes that store.
    #[track_caller]
    pub fn shared_buffer(&self) -> String {
        let all = wait_until(ONLINE_WITHIN, || self.online() == NODES);
        assert!(all, "only {} of {NODES} nodes are online", self.online());
        self.shared_buffer_on_who_is_there()
    }

    /// The same, on what control believes at this moment.
    pub fn shared_buffer_on_who_is_there(&self) -> String {
        let (name, id) = (self.name("proj"), ADA.id.to_string());
        let options =
            ["-c", "CLI", "-u", id.as_str(), "-C", "wlm_pool:67108864", "-a", "striped(shared=yes)"];
        self.manage("create_persistent", &name, &[&options[..], &["-T", "scratch"]].concat());
        name
    }

    /// Removes a persistent buffer.
    pub fn destroy(&self, name: &str) {
        self.manage("teardown", name, &["--job", "/dev/null", "--hurry"]);
    }

    /// A session of a user's with the buffer, and `lines` of directives; it is mounted on n3 when it begins.
    pub fn session(&self, user: User, buffer: &str, lines: &str) -> Session<'_> {
        let token = self.name("");
        let [script, names] = ["job", "on"].map(|of| self.folder().join(format!("{of}-{token}")));
        fs::write(&script, format!("#!/bin/sh\n#DW persistentdw name={buffer}\n{lines}\n")).expect("ours");
        fs::write(&names, "n3\n").expect("ours");
        let id = user.id.to_string();
        let owner = ["--caller", "tests", "--user", &id, "--groupid", &id, "--capacity", "wlm_pool:0"];
        self.manage("setup", &token, &[&owner[..], &["--job", plain(&script)]].concat());
        let mountpoint = self.folder().join("mnt").join(&token).join(format!("{buffer}_striped"));
        Session { site: self, token, user, script, names, mountpoint }
    }
}

impl Session<'_> {
    /// Runs what comes before the job.
    pub fn data_in(&self) -> Outcome {
        self.site.call("data_in", &self.token, &["--job", plain(&self.script)])
    }

    /// Asks for the mount.
    pub fn try_mount(&self) -> Outcome {
        let words = ["--job", plain(&self.script), "--nodehostnamefile", plain(&self.names)];
        self.site.call("pre_run", &self.token, &words)
    }

    /// Mounts the buffer; where it is then.
    #[track_caller]
    pub fn mount(&mut self) {
        let mounted = self.try_mount();
        assert!(mounted.status.success(), "pre_run: {}{}", mounted.stdout, mounted.stderr);
        let pattern = format!("/mnt/{}/", self.token);
        let found = self.site.mounts("n3").into_iter().find(|mount| mount.contains(&pattern));
        self.mountpoint = PathBuf::from(found.expect("it is mounted"));
    }

    /// Runs a shell command on n3 as the session's user, with the mountpoint as `$B`.
    pub fn run(&self, command: &str) -> Outcome {
        let command = format!("B={}; {command}", self.mountpoint.display());
        self.site.on(&format!("n3/{}", self.user.name), &["bash", "-c", &command])
    }

    /// Runs what comes after the job.
    pub fn data_out(&self) -> Outcome {
        let job = ["--job", plain(&self.script)];
        self.site.manage("post_run", &self.token, &job);
        self.site.call("data_out", &self.token, &job)
    }

    /// Ends it, whatever is owed.
    pub fn end(self) {
        self.site.call("post_run", &self.token, &["--job", plain(&self.script)]);
        self.site.manage("teardown", &self.token, &["--job", plain(&self.script), "--hurry"]);
    }
}

/// A file's contents, as this process sees them.
pub fn contents(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}
