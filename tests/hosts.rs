//! A cluster of `scripts/cluster` for one test program: its folder, its hosts, and what runs and is mounted on them.

#![expect(clippy::print_stdout, reason = "test programs with a runner of their own print what they do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::cluster::{Outcome, program_folder};
use crate::processes::{self, Process, wait_until};

/// An ordinary user of the cluster, whom `scripts/cluster` makes; the group has the same number.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// Name; also of the folders.
    pub name: &'static str,
    /// User and group id.
    pub id: u32,
}

/// One user.
pub const ADA: User = User { name: "ada", id: 2001 };
/// Another.
pub const GRACE: User = User { name: "grace", id: 2002 };

/// A running cluster; each host is a set of namespaces of this machine.
pub struct Hosts {
    folder: PathBuf,
    names: Vec<String>,
}

impl Hosts {
    /// Starts the head and `nodes` nodes; `settings` are environment variables of `scripts/cluster/up`.
    ///
    /// # Panics
    /// They do not start.
    pub fn up(nodes: usize, settings: &[(&str, &str)]) -> Hosts {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let folder = PathBuf::from(format!("/var/tmp/forebay-test-{}-{number}", std::process::id()));
        let hosts = Hosts { folder, names: (1..=nodes).map(|number| format!("n{number}")).collect() };
        let mut command = hosts.script("up");
        command.arg(nodes.to_string()).envs(settings.iter().copied()).stdout(Stdio::null());
        assert!(command.status().expect("bash is there").success(), "the cluster does not start");
        hosts
    }

    /// Makes a striped buffer of root's for the session `token`, as a workload manager does, and mounts it on every
    /// node; `options` are more words of its directive. Where it is mounted, for processes on the nodes.
    #[track_caller]
    pub fn mount_buffer(&self, token: &str, options: &str) -> PathBuf {
        let (script, names) = (self.folder.join(format!("job-{token}")), self.folder.join("names"));
        let directive =
            format!("#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=1GiB {options}\n");
        fs::write(&script, directive).expect("the folder is ours");
        fs::write(&names, self.names.join("\n")).expect("the folder is ours");
        let (script, names) = (plain(&script), plain(&names));
        let owner = ["--caller", "tests", "--user", "0", "--groupid", "0", "--capacity", "wlm_pool:1GiB"];
        let job = ["--job", script, "--nodehostnamefile", names];
        self.manage("setup", token, &[&owner[..], &job].concat());
        self.manage("data_in", token, &["--job", script]);
        self.manage("pre_run", token, &job);
        self.folder.join("mnt").join(token).join("striped")
    }

    /// A path of a host's own mount table, as this process reaches it: through a process of the host.
    pub fn seen_from(&self, host: &str, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.first_process(host)));
        root.join(path.strip_prefix("/").expect("the path is absolute"))
    }

    /// Calls a function of the workload manager's interface, which must succeed.
    #[track_caller]
    pub fn manage(&self, function: &str, token: &str, arguments: &[&str]) {
        let outcome = self.call(function, token, arguments);
        assert!(outcome.status.success(), "{function}: {}{}", outcome.stdout, outcome.stderr);
    }

    /// Calls a function of the workload manager's interface.
    pub fn call(&self, function: &str, token: &str, arguments: &[&str]) -> Outcome {
        let program = self.program("dw_wlm_cli");
        self.on("head", &[&[program.as_str(), "--function", function, "--token", token], arguments].concat())
    }

    /// Removes it, and looks whether that is true.
    pub fn down(&self) {
        let outcome = run(&mut self.script("down"));
        assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
        assert!(!self.folder.exists() && processes::of_folder(&self.folder).is_empty());
    }

    /// Where everything of it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Names of the nodes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Runs a command in a host: `head`, or `n1/ada` as a user.
    pub fn on(&self, place: &str, words: &[&str]) -> Outcome {
        run(self.script("on").arg(place).args(words))
    }

    /// A script of `scripts/cluster` for this cluster.
    pub fn script(&self, name: &str) -> Command {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/cluster").join(name);
        let mut command = Command::new(path);
        command
            .env("FOREBAY_CLUSTER_DIR", &self.folder)
            .env("FOREBAY_CLUSTER_PROGRAMS", program_folder())
            .stdin(Stdio::null());
        command
    }

    /// The folder that is `/run` in a host.
    pub fn run_folder(&self, host: &str) -> PathBuf {
        self.folder.join("hosts").join(host).join("run")
    }

    /// One of the programs under test, as it is installed in the cluster.
    pub fn program(&self, name: &str) -> String {
        plain(&self.folder.join("bin").join(name)).to_owned()
    }

    /// Every process of the cluster's programs named `name`, with `word` in its command line.
    pub fn processes(&self, name: &str, word: &str) -> Vec<Process> {
        let is_it = |process: &Process| {
            process.program() == name && process.arguments.iter().any(|argument| argument.contains(word))
        };
        processes::of_folder(&self.folder).into_iter().filter(is_it).collect()
    }

    /// The process of a service: `forebay-control`, or the `forebay-node` of a host.
    #[track_caller]
    pub fn process(&self, name: &str, word: &str) -> Process {
        let mut found = None;
        wait_until(Duration::from_secs(20), || {
            found = self.processes(name, word).pop();
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("no process {name} {word}"))
    }

    /// The `forebay-node` of a host.
    #[track_caller]
    pub fn node(&self, host: &str) -> Process {
        self.process("forebay-node", &format!("/etc/{host}.toml"))
    }

    /// `forebay-control`.
    #[track_caller]
    pub fn control(&self) -> Process {
        self.process("forebay-control", "control.toml")
    }

    /// The first process of a host.
    ///
    /// # Panics
    /// There is no such host.
    pub fn first_process(&self, host: &str) -> i32 {
        let file = self.folder.join("hosts").join(host).join("pid");
        let pid = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        pid.trim().parse().expect("`up` wrote a process id")
    }

    /// Mounts of buffers on a host, as its own mount table has them.
    pub fn mounts(&self, host: &str) -> Vec<String> {
        let pid = fs::read_to_string(self.folder.join("hosts").join(host).join("pid")).unwrap_or_default();
        let table = fs::read_to_string(format!("/proc/{}/mountinfo", pid.trim())).unwrap_or_default();
        let root = self.folder.join("mnt");
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        points.filter(|point| Path::new(point).starts_with(&root)).map(str::to_owned).collect()
    }

    /// What `dwstat WHAT` prints, for an operator.
    pub fn dwstat(&self, what: &str) -> String {
        let outcome = self.on("head", &[&self.program("dwstat"), "-b", what]);
        outcome.stdout + &outcome.stderr
    }

    /// Ends everything on a host at once, as a power cut does.
    pub fn kill_host(&self, host: &str) {
        let pid = rustix::process::Pid::from_raw(self.first_process(host)).expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the host lives");
    }

    /// Empty, or what is still allocated and mounted.
    pub fn leftovers(&self) -> String {
        let pools = self.dwstat("pools");
        // What is free beside the tests changes; what volumes of nodes take is looked at below.
        let line = pools.lines().find(|line| line.trim_start().starts_with("wlm_pool")).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut left = String::new();
        if words.len() != 5 || words[2] != words[3] {
            left += &pools;
        }
        for what in ["sessions", "fragments", "activations"] {
            let text = self.dwstat(what);
            if !text.starts_with("no ") {
                left += &text;
            }
        }
        for host in &self.names {
            for point in self.mounts(host) {
                left += &format!("{point} on {host}\n");
            }
        }
        left
    }

    /// The last lines of the logs of these services.
    pub fn print_logs(&self, services: &[&str]) {
        for name in services {
            let text = fs::read(self.folder.join(format!("log/{name}.log"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("show_")).collect();
            println!("---- {name}.log\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// A path of ours as text.
pub fn plain(path: &Path) -> &str {
    path.to_str().expect("our folders have plain names")
}

fn run(command: &mut Command) -> Outcome {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}
