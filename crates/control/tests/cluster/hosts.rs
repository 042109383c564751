//! The processes, and what is left of them when a test fails.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use api::CallError;
use api::munge::{Munge, ServiceUser};
use daemon::client::Client;
use model::InstanceId;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use wire::control::{Owner, Script, SessionStatus, Setup, Status};

/// Nothing here takes longer, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Whose jobs these are: `nobody`, who has no rights.
pub const OWNER: Owner = Owner { uid: 65534, gid: 65534 };

/// Control, the nodes n1 and n2, and a munged.
pub struct Cluster {
    folder: TempDir,
    running: Vec<(String, Child)>,
    api_port: u16,
    data_port: u16,
    control_port: u16,
}

impl Cluster {
    /// Started, with both nodes online. `None` where this user cannot have one.
    pub async fn start() -> Option<Cluster> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can run the nodes of a cluster");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        // Stages read and write here as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(folder.path().join("pfs")).unwrap();
        fs::set_permissions(folder.path().join("pfs"), fs::Permissions::from_mode(0o777)).unwrap();
        let mut cluster = Cluster {
            folder,
            running: Vec::new(),
            api_port: free_port(),
            data_port: free_port(),
            control_port: free_port(),
        };
        cluster.start_munged();
        cluster.start_control();
        for node in ["n1", "n2"] {
            cluster.start_node(node);
        }
        cluster
            .until("both nodes are online", |status| {
                status.nodes.iter().filter(|node| node.online).count() == 2
            })
            .await;
        Some(cluster)
    }

    /// A file of the test's own file system, which stands for the parallel one.
    pub fn pfs(&self, name: &str) -> PathBuf {
        self.path("pfs").join(name)
    }

    /// Where a node mounts.
    pub fn mount_root(&self, node: &str) -> PathBuf {
        self.path(node).join("mnt")
    }

    /// A client on control's machine.
    pub fn client(&self) -> Client {
        Client::new(self.path("control/control.sock")).with_timeout(LIMIT)
    }

    /// A client on another machine.
    pub fn remote_client(&self) -> Client {
        let munge = Munge::load(Some(self.path("munge.socket"))).unwrap();
        Client::over_tcp(format!("127.0.0.1:{}", self.control_port), "control", munge, ServiceUser::default())
    }

    /// Calls a function of a session.
    pub async fn call(&self, token: &str, function: &str, body: Value) -> Result<SessionStatus, CallError> {
        self.client().post(&format!("/v1/sessions/{token}/{function}"), &body).await
    }

    /// Any other request.
    pub async fn post<B: Serialize, R: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
    ) -> Result<R, CallError> {
        self.client().post(path, body).await
    }

    /// Everything that an operator sees.
    pub async fn status(&self) -> Status {
        self.client().get("/v1/status").await.unwrap()
    }

    /// Waits.
    pub async fn until(&self, what: &str, mut is_so: impl FnMut(&Status) -> bool) {
        let begin = Instant::now();
        loop {
            if let Ok(status) = self.client().get("/v1/status").await
                && is_so(&status)
            {
                return;
            }
            assert!(begin.elapsed() < LIMIT, "{what}: not so within {LIMIT:?}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// A job of Slurm's with these directives.
    pub fn setup(&self, directives: &str) -> Setup {
        Setup {
            owner: OWNER,
            script: Script {
                text: format!("#!/bin/sh\n{directives}"),
                path: "/spool/job".into(),
                workdir: self.path("pfs"),
                job_name: "job".into(),
                user: "nobody".into(),
            },
            fragments: None,
            volume: None,
            caller: "SLURM".into(),
            capacity: None,
            hosts: Vec::new(),
        }
    }

    /// Ends a process as a crash does.
    pub fn kill(&mut self, name: &str) {
        let at = self.running.iter().position(|(known, _)| known == name).expect("it runs");
        let (_, mut process) = self.running.remove(at);
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Ends a node and takes all that it had.
    pub fn lose(&mut self, node: &str) {
        self.kill(node);
        fs::remove_dir_all(self.path(node).join("state")).unwrap();
    }

    /// A process does nothing until [`Cluster::resume`].
    pub fn pause(&self, name: &str) {
        self.signal(name, Signal::STOP);
    }

    /// It goes on.
    pub fn resume(&self, name: &str) {
        self.signal(name, Signal::CONT);
    }

    fn signal(&self, name: &str, signal: Signal) {
        let (_, process) = self.running.iter().find(|(known, _)| known == name).expect("it runs");
        kill_process(Pid::from_child(process), signal).unwrap();
    }

    /// What a node has of an instance.
    pub fn fragment(&self, node: &str, instance: &InstanceId) -> PathBuf {
        self.path(node).join("state/fragments").join(instance)
    }

    /// Starts control, again perhaps.
    pub fn start_control(&mut self) {
        let config = format!(
            "state_dir = {:?}\nlisten = \"127.0.0.1:{}\"\nwlm_users = [\"64030\"]\nmount_root = {:?}\n\
             node_timeout_s = 3\nfence_grace_s = 3\nmunge_socket = {:?}\naudit_log = {:?}\n\
             [[pools]]\nname = \"wlm_pool\"\ngranularity = \"16MiB\"\n",
            self.path("control"),
            self.control_port,
            self.mount_root("n1"),
            self.path("munge.socket"),
            self.path("audit.jsonl"),
        );
        self.run("forebay-control", "control", &config);
    }

    /// Starts a node, again perhaps.
    pub fn start_node(&mut self, name: &str) {
        let ip = match name {
            "n1" => "127.0.0.2",
            "n2" => "127.0.0.3",
            "n3" => "127.0.0.4",
            _ => "127.0.0.5",
        };
        let config = format!(
            "name = {name:?}\nstate_dir = {:?}\ncontrol = \"127.0.0.1:{}\"\nlisten = {ip:?}\napi_port = {}\n\
             data_port = {}\ncapacity = \"256MiB\"\nmount_root = {:?}\nmunge_socket = {:?}\n",
            self.path(name).join("state"),
            self.control_port,
            self.api_port,
            self.data_port,
            self.mount_root(name),
            self.path("munge.socket"),
        );
        self.run("forebay-node", name, &config);
    }

    fn run(&mut self, program: &str, name: &str, config: &str) {
        let file = self.path(&format!("{name}.toml"));
        fs::write(&file, config).unwrap();
        let own = Path::new(env!("CARGO_BIN_EXE_forebay-control"));
        let program = own.with_file_name(program);
        assert!(program.exists(), "no {}: run make build first", program.display());
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path(&format!("{name}.log")));
        let mut command = Command::new(program);
        command.arg("--config").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        self.running.push((name.to_owned(), command.spawn().unwrap()));
    }

    fn start_munged(&mut self) {
        fs::write(self.path("munge.key"), [7; 1024]).unwrap();
        fs::set_permissions(self.path("munge.key"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force"]).stderr(Stdio::null());
        for kind in ["key-file", "socket", "pid-file", "log-file", "seed-file"] {
            let file = kind.trim_end_matches("-file");
            command.arg(format!("--{kind}")).arg(self.path(&format!("munge.{file}")));
        }
        self.running.push(("munged".to_owned(), command.spawn().expect("munged is installed")));
        let munge = Munge::load(Some(self.path("munge.socket"))).unwrap();
        let begin = Instant::now();
        while munge.encode(b"").is_err() {
            assert!(begin.elapsed() < LIMIT, "munged does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A file of this cluster.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn logs(&self) -> String {
        let log = |name: &str| fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        ["control", "n1", "n2", "n3", "n4"].map(|name| format!("--- {name}\n{}", log(name))).join("\n")
    }

    /// What is mounted of this cluster.
    pub fn mounts(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        let ours = points.filter(|point| Path::new(point).starts_with(self.folder.path()));
        ours.map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // A mount process ends when its mount is gone.
        for point in self.mounts() {
            let _ = Command::new("umount").args(["-l", &point]).status();
        }
        for (_, process) in self.running.iter_mut().rev() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// A port that is free on every loopback address.
fn free_port() -> u16 {
    TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port()
}

/// No arguments.
pub fn nothing() -> Value {
    json!({})
}

/// A job on these nodes.
pub fn hosts(names: &[&str]) -> Value {
    json!({"mountpoint": null, "hosts": names})
}
