//! Storage nodes and mounts without a control service: the test starts, kills and starts again each process itself.
//!
//! Each mount has a compute node of its own, so that a mount's process and the node that replaces it do not die
//! together.
//!
//! **Invariant:** all that a [`Site`] started and mounted ends with it.

mod mounting;

use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::cluster::program_folder;
use crate::processes::{self, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Nothing that is waited for takes longer, even on a busy machine; what does hangs.
pub const HANGS_AFTER: Duration = Duration::from_secs(90);

/// What tells a storage node how long an object rests before it is sealed, milliseconds.
const REST: &str = "FOREBAY_SEAL_AFTER_MS";

/// The instance's.
pub const KEY: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";

/// What a site is to be like.
#[derive(Clone)]
pub struct Plan {
    /// How many nodes store.
    pub storage_nodes: usize,
    /// How many nodes mount, each once.
    pub mounts: usize,
    /// `image` or `directory`.
    pub volume: &'static str,
    /// How long mounts wait for a storage node, milliseconds.
    pub grace_ms: u64,
    /// Bytes of each storage node.
    pub capacity: u64,
}

/// Some storage nodes and some mounts.
pub struct Site {
    /// What it is like.
    pub plan: Plan,
    mirrored: bool,
    base: TempDir,
    /// The nodes that store; the first is the home of all names.
    pub storage: Vec<Node>,
    /// The nodes that mount.
    pub compute: Vec<Node>,
}

/// One `forebay-node`.
pub struct Node {
    folder: PathBuf,
    name: String,
    roles: &'static str,
    process: Option<Child>,
    /// Where mounts are told that its data path is, if not where it is.
    relay: Option<String>,
    /// After how long it seals what rests, from its next start on: a moment in short tests, ten seconds elsewhere.
    pub rest_ms: u64,
}

impl Site {
    /// Starts the nodes and makes the mounts, with the storage nodes' folders in `storage`, if it is given.
    #[track_caller]
    pub fn start(plan: Plan, storage: Option<&Path>) -> Site {
        Site::start_on(plan, |_| storage)
    }

    /// The same, with the folder of storage node `n` in `disk(n)`, if there is one.
    #[track_caller]
    pub fn start_on<'a>(plan: Plan, disk: impl Fn(usize) -> Option<&'a Path>) -> Site {
        Site::start_as(plan, false, disk)
    }

    /// The same, with each storage node's part of the buffer on the next one as well.
    #[track_caller]
    pub fn start_mirrored<'a>(plan: Plan, disk: impl Fn(usize) -> Option<&'a Path>) -> Site {
        Site::start_as(plan, true, disk)
    }

    #[track_caller]
    fn start_as<'a>(plan: Plan, mirrored: bool, disk: impl Fn(usize) -> Option<&'a Path>) -> Site {
        let base = tempfile::Builder::new().prefix("fbc").tempdir().expect("temporary folders are writable");
        // Programs of ordinary users work in the mounts, too.
        fs::set_permissions(base.path(), Permissions::from_mode(0o755)).expect("the folder is ours");
        let node = |folder: &Path, name: String, roles| Node::new(folder.join(&name), name, roles);
        let mut site = Site {
            storage: (0..plan.storage_nodes)
                .map(|n| node(disk(n).unwrap_or(base.path()), format!("n{n}"), "storage"))
                .collect(),
            compute: (0..plan.mounts).map(|n| node(base.path(), format!("c{n}"), "compute")).collect(),
            plan,
            mirrored,
            base,
        };
        site.storage.iter_mut().chain(&mut site.compute).for_each(Node::start);
        site.make_fragments();
        (0..site.compute.len()).for_each(|n| site.mount(n));
        site
    }

    /// Where the mount of compute node `n` is.
    pub fn mountpoint(&self, n: usize) -> PathBuf {
        self.base.path().join(format!("m{n}"))
    }

    /// One more compute node with a mount: a client that knows nothing yet. Returns its number.
    #[track_caller]
    pub fn add_mount(&mut self) -> usize {
        let n = self.compute.len();
        let name = format!("c{n}");
        let folder = self.base.path().join(&name);
        let mut node = Node::new(folder, name, "compute");
        node.start();
        self.compute.push(node);
        self.mount(n);
        n
    }

    /// What the mount of compute node `n` has logged.
    pub fn mount_log(&self, n: usize) -> String {
        fs::read_to_string(self.compute[n].folder.join("mounts/m/log")).unwrap_or_default()
    }

    fn addresses(&self) -> Vec<Value> {
        let address = |node: &Node| {
            let data = node.call("GET", "/v1/health", None)["data"].clone();
            match &node.relay {
                Some(relay) => json!({ "node": data["node"], "tcp": relay, "unix": null }),
                None => data,
            }
        };
        self.storage.iter().map(address).collect()
    }

    fn layout(&self) -> Value {
        let nodes = self.plan.storage_nodes;
        json!({ "fragments": nodes, "width": nodes, "stripe_size_bytes": 65536 })
    }

    /// These storage nodes are lost for good, at once, with all that they had: others take their places, and everybody
    /// is told.
    #[track_caller]
    pub fn replace(&mut self, lost: &[usize]) {
        lost.iter().for_each(|n| self.storage[*n].kill());
        for n in lost {
            fs::remove_dir_all(&self.storage[*n].folder).expect("the folder is ours");
            let name = format!("{}-again", self.storage[*n].name);
            let folder = self.base.path().join(&name);
            self.storage[*n] = Node::new(folder, name, "storage");
            self.storage[*n].start();
        }
        for n in lost {
            let mut spec = self.fragment(*n);
            spec["missing"] = "restored".into();
            self.storage[*n].call("PUT", "/v1/fragments/i1", Some(&spec));
        }
        let addresses = self.addresses();
        for (n, node) in
            lost.iter().flat_map(|n| self.storage.iter().chain(&self.compute).map(move |to| (*n, to)))
        {
            let moved = json!({ "fragment": n, "address": addresses[n] });
            node.call("PUT", "/v1/fragments/i1/moved", Some(&moved));
        }
    }

    fn make_fragments(&self) {
        for (index, node) in self.storage.iter().enumerate() {
            node.call("PUT", "/v1/fragments/i1", Some(&self.fragment(index)));
        }
    }

    fn fragment(&self, index: usize) -> Value {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let namespace = json!({
            "id": 0, "layout": self.layout(), "home": 0, "owner": { "uid": uid, "gid": gid }, "mode": 0o755
        });
        json!({
            "instance": "i1", "index": index, "capacity_bytes": self.plan.capacity, "volume": self.plan.volume,
            "key": KEY, "peers": self.addresses(), "namespaces": [namespace], "mirrored": self.mirrored,
            "missing": "made"
        })
    }

    /// Every process's last words, for a test that failed.
    fn print_logs(&self) {
        let logs = self.storage.iter().chain(&self.compute);
        let logs = logs.flat_map(|node| [node.folder.join("log"), node.folder.join("mounts/m/log")]);
        for log in logs.filter(|log| log.exists()) {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            eprintln!("---- {}\n{}", log.display(), lines[lines.len().saturating_sub(60)..].join("\n"));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
        }
        self.compute.iter_mut().chain(&mut self.storage).for_each(Node::kill);
        // Mounts' processes are no children of ours.
        wait_until(HANGS_AFTER, || {
            let left = processes::of_folder(self.base.path());
            left.iter().for_each(|process| process.signal(Signal::KILL));
            left.is_empty()
        });
        let mut mounted = processes::mounts_of(self.base.path());
        // Of a disk, what is mounted on it.
        mounted.extend(self.storage.iter().flat_map(|node| processes::mounts_of(&node.folder)));
        for point in mounted.iter().rev() {
            let _gone = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

impl Node {
    fn new(folder: PathBuf, name: String, roles: &'static str) -> Node {
        Node { folder, name, roles, process: None, relay: None, rest_ms: 30 }
    }

    /// Starts it, and waits until it answers.
    #[track_caller]
    pub fn start(&mut self) {
        fs::create_dir_all(&self.folder).expect("the folder is ours");
        let log = File::options().create(true).append(true).open(self.folder.join("log"));
        let log = log.expect("the folder is ours");
        let mut command = Command::new(program_folder().join("forebay-node"));
        command.args(["--name", &self.name, "--roles", self.roles, "--dir"]).arg(&self.folder);
        if std::env::var_os(REST).is_none() {
            command.env(REST, self.rest_ms.to_string());
        }
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        self.process = Some(command.spawn().expect("the program is built"));
        let answers = wait_until(HANGS_AFTER, || self.try_call("GET", "/v1/health", None).is_ok());
        assert!(answers, "node {} does not start:\n{}", self.name, self.log());
    }

    /// `kill -9`, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("it is not reaped yet");
            process.wait().expect("it is our child");
        }
    }

    /// Ends it as a service manager does, and waits until it has ended.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        let mut process = self.process.take().expect("it runs");
        assert!(process.wait().expect("it is our child").success(), "{}", self.log());
    }

    /// Where its data path is, over TCP.
    #[track_caller]
    pub fn address(&self) -> String {
        let data = self.call("GET", "/v1/health", None)["data"].clone();
        data["tcp"].as_str().expect("it has one").to_owned()
    }

    /// Mounts that are made from now on reach its data path at this address.
    pub fn reach_through(&mut self, relay: &str) {
        self.relay = Some(relay.to_owned());
    }

    /// Its process's number, while it runs.
    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(Pid::from_child)
    }

    /// Sends it a signal. After SIGSTOP all of its threads stand still: one that does not yet could answer something.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let process = self.process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("it runs");
        if signal == Signal::STOP {
            let stopped = wait_until(HANGS_AFTER, || processes::is_stopped(process.id()));
            assert!(stopped, "node {} does not stop", self.name);
        }
    }

    /// The process of its mount, once it is mounted.
    #[track_caller]
    pub fn mount_pid(&self) -> i32 {
        let mut pid = None;
        let mounted = wait_until(HANGS_AFTER, || {
            let mount = &self.call("GET", "/v1/health", None)["mounts"][0];
            pid = mount["pid"].as_i64().filter(|_| mount["mounted"] == true);
            pid.is_some()
        });
        assert!(mounted, "the mount of {} does not come back:\n{}", self.name, self.log());
        i32::try_from(pid.expect("it is mounted")).expect("a process's number is 32 bits")
    }

    /// `kill -9` of the process of its mount, which it replaces.
    #[track_caller]
    pub fn kill_mount(&self) {
        let pid = self.mount_pid();
        // It may have been killed just before, and its node not know yet.
        let _gone = kill_process(Pid::from_raw(pid).expect("no process has the number 0"), Signal::KILL);
        assert!(wait_until(HANGS_AFTER, || !is_alive(pid)), "process {pid} outlives kill -9");
    }

    /// `kill -9` of itself, under its mount; started again after `pause`.
    #[track_caller]
    pub fn restart_supervisor(&mut self, pause: Duration) {
        // Node and mount at once are more than is promised: a mount that was just killed has its successor first.
        let replaced = wait_until(HANGS_AFTER, || is_alive(self.mount_pid()));
        assert!(replaced, "no successor for the mount:\n{}", self.log());
        self.kill();
        std::thread::sleep(pause);
        self.start();
        // It holds the mount again when it says so.
        self.mount_pid();
    }

    /// Every fragment that it has is served.
    #[track_caller]
    pub fn assert_serves(&self) {
        let fragments = self.call("GET", "/v1/health", None)["fragments"].clone();
        let broken = |fragment: &Value| !fragment["error"].is_null();
        let all = fragments.as_array().expect("a node lists them");
        assert!(!all.is_empty() && !all.iter().any(broken), "{fragments}:\n{}", self.log());
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// Where it keeps everything.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Asks its API.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.try_call(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path} on {}: {error}", self.name))
    }

    /// Asks its API, which may refuse or be away.
    pub fn try_call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        ask(&self.folder.join("node.sock"), method, path, body)
    }
}

/// Asks the API of the node with this socket, which may refuse or be away.
pub fn ask(socket: &Path, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
    let mut socket = UnixStream::connect(socket).map_err(|e| e.to_string())?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: node\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut answer = String::new();
    socket
        .write_all([head, body].concat().as_bytes())
        .and_then(|()| socket.read_to_string(&mut answer))
        .map_err(|e| e.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    if !head.starts_with("HTTP/1.1 2") {
        return Err(answer);
    }
    serde_json::from_str(body).map_err(|e| format!("{e}: {answer}"))
}

/// Whether the process is there, and no zombie.
pub fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}
