//! The cluster of the tests: its folder, its hosts and users, and what is on it now.

#![expect(clippy::print_stdout, reason = "it is what a test runner is for")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tests::cluster::{Outcome, program_folder};
use tests::processes::{self, Process, wait_until};

use crate::job::Job;

/// Slurm polls Forebay every 30 s, and starts again what it lost after 60 s.
const SETTLED: Duration = Duration::from_secs(100);

/// The compute nodes; the first two are storage nodes too.
pub const NODES: [&str; 4] = ["n1", "n2", "n3", "n4"];

/// An ordinary user of the cluster.
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

/// A running cluster.
pub struct Site {
    folder: PathBuf,
    numbers: AtomicU32,
}

impl Site {
    /// Starts it.
    pub fn up() -> Site {
        let folder = PathBuf::from(format!("/var/tmp/forebay-test-{}", std::process::id()));
        let site = Site { folder, numbers: AtomicU32::new(0) };
        let status = site.script("up").arg("4").stdout(Stdio::null()).status().expect("bash is there");
        assert!(status.success(), "the cluster does not start");
        site
    }

    /// Removes it, and looks whether that is true.
    pub fn down(&self) {
        let outcome = run(&mut self.script("down"));
        assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
        assert!(!self.folder.exists() && processes::of_folder(&self.folder).is_empty());
    }

    /// A folder on the parallel file system for one test, owned by `user`.
    pub fn pfs(&self, user: User, name: &str) -> PathBuf {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join("pfs").join(user.name).join(format!("{name}-{number}"));
        fs::create_dir_all(&folder).expect("the folder is ours");
        own(&folder, user);
        folder
    }

    /// Submits a script; its output goes to the same folder.
    #[track_caller]
    pub fn submit(&self, user: User, folder: &Path, script: &str) -> Job<'_> {
        self.try_submit(user, folder, script, &[]).unwrap_or_else(|text| panic!("sbatch: {text}\n{script}"))
    }

    /// Submits a script with options of sbatch; the error is what sbatch says.
    pub fn try_submit(
        &self,
        user: User,
        folder: &Path,
        script: &str,
        options: &[&str],
    ) -> Result<Job<'_>, String> {
        let file = folder.join("job.sh");
        fs::write(&file, script).expect("the folder is ours");
        own(&file, user);
        let folder_text = folder.to_str().expect("our folders have plain names");
        let output = format!("{folder_text}/%A.out");
        let mut words = vec!["sbatch", "--parsable", "--chdir", folder_text, "--output", output.as_str()];
        words.extend(options);
        words.push(file.to_str().expect("our folders have plain names"));
        let outcome = self.on(&format!("head/{}", user.name), &words);
        match outcome.stdout.trim().parse() {
            Ok(id) if outcome.status.success() => Ok(Job { site: self, id, folder: folder.into() }),
            _ => Err(outcome.stderr),
        }
    }

    /// Runs a command in a host: `head`, or `n1/ada` as a user.
    pub fn on(&self, place: &str, words: &[&str]) -> Outcome {
        run(self.script("on").arg(place).args(words))
    }

    /// A script of `scripts/cluster` for this cluster.
    fn script(&self, name: &str) -> Command {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/cluster").join(name);
        let mut command = Command::new(path);
        command
            .env("FOREBAY_CLUSTER_DIR", &self.folder)
            .env("FOREBAY_CLUSTER_PROGRAMS", program_folder())
            .stdin(Stdio::null());
        command
    }

    /// Where Slurm keeps the process ids of a host's services, read from outside.
    fn run_folder(&self, host: &str) -> PathBuf {
        self.folder.join("hosts").join(host).join("run")
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

    /// Ends slurmctld with a signal and waits until it is gone.
    pub fn stop_slurmctld(&self, signal: &str) {
        let file = self.run_folder("head").join("slurmctld.pid");
        let pid = fs::read_to_string(file).expect("slurmctld wrote its pid");
        let command =
            format!("kill -{signal} {0}; while [ -e /proc/{0}/exe ]; do sleep 0.05; done", pid.trim());
        self.on("head", &["bash", "-c", &command]);
    }

    /// When slurmctld last wrote down its jobs.
    pub fn slurmctld_saved(&self) -> SystemTime {
        let file = self.folder.join("state/slurmctld/job_state");
        fs::metadata(file).and_then(|file| file.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Starts slurmctld again and waits until it answers.
    pub fn start_slurmctld(&self) {
        let outcome = self.on("head", &["env", &self.cache(), "slurmctld"]);
        assert!(outcome.status.success(), "{}", outcome.stderr);
        let answers = || self.on("head", &["scontrol", "ping"]).stdout.contains("UP");
        assert!(wait_until(Duration::from_secs(20), answers), "slurmctld does not answer");
    }

    /// Where buffers are mounted on each host.
    pub fn mount_root(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    /// Where the `forebay-node` of a host keeps its state.
    pub fn state_of(&self, host: &str) -> PathBuf {
        self.folder.join("state").join(host)
    }

    /// The first process of a host.
    pub fn host_process(&self, host: &str) -> String {
        let pid = fs::read_to_string(self.folder.join("hosts").join(host).join("pid"));
        pid.unwrap_or_default().trim().to_owned()
    }

    /// Mounts of buffers on a host, as its own mount table has them.
    pub fn mounts(&self, host: &str) -> Vec<String> {
        let pid = self.host_process(host);
        let table = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let root = self.mount_root();
        let points = table.lines().filter_map(|line| line.split(' ').nth(4));
        points.filter(|point| Path::new(point).starts_with(&root)).map(str::to_owned).collect()
    }

    /// What `dwstat WHAT` prints, for an operator.
    pub fn dwstat(&self, what: &str) -> String {
        let program = self.folder.join("bin/dwstat");
        let outcome = self.on("head", &[program.to_str().expect("a plain name"), "-b", what]);
        outcome.stdout + &outcome.stderr
    }

    /// `dwcli WORDS...`, as an operator.
    pub fn dwcli(&self, words: &[&str]) -> Outcome {
        let program = self.folder.join("bin/dwcli");
        self.on("head", &[&[program.to_str().expect("a plain name")], words].concat())
    }

    /// `forebay WORDS...`, as an operator.
    pub fn forebay(&self, words: &[&str]) -> Outcome {
        let program = self.folder.join("bin/forebay");
        self.on("head", &[&[program.to_str().expect("a plain name")], words].concat())
    }

    /// `dw_wlm_cli WORDS...`, as Slurm's user.
    pub fn shim(&self, words: &[&str]) -> Outcome {
        let program = self.folder.join("bin/dw_wlm_cli");
        let cache = self.cache();
        let user = ["setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups", "env", cache.as_str()];
        self.on("head", &[&user[..], &[program.to_str().expect("a plain name")], words].concat())
    }

    /// Where the shim keeps what it last knew, as `up` tells slurmctld.
    fn cache(&self) -> String {
        format!("FOREBAY_CACHE={}/state/wlm-cache", self.folder.display())
    }

    /// Ends everything on a host at once, as a power cut does.
    pub fn kill_host(&self, host: &str) {
        let pid = self.host_process(host);
        let pid = pid.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("the host lives");
    }

    /// Nothing is allocated, nothing is mounted, and Slurm knows of no buffer; waits for what is still on its way.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let is_empty = || {
            self.leftovers().is_empty()
                && !self.on("head", &["scontrol", "show", "burstbuffer"]).stdout.contains(" State=")
        };
        if !wait_until(SETTLED, || {
            let empty = is_empty();
            if !empty {
                std::thread::sleep(Duration::from_millis(300));
            }
            empty
        }) {
            let slurm = self.on("head", &["scontrol", "show", "burstbuffer"]).stdout;
            panic!("left over:\n{}\n{slurm}", self.leftovers());
        }
    }

    /// Empty, or what is still allocated and mounted.
    fn leftovers(&self) -> String {
        let pools = self.dwstat("pools");
        let words: Vec<&str> = pools.split_whitespace().collect();
        let mut left = String::new();
        if words.len() != 10 || words[7] != words[8] {
            left += &pools;
        }
        for what in ["sessions", "fragments", "activations"] {
            let text = self.dwstat(what);
            if !text.starts_with("no ") {
                left += &text;
            }
        }
        for host in NODES {
            for point in self.mounts(host) {
                left += &format!("{point} on {host}\n");
            }
        }
        left
    }

    /// The last lines of the logs of our services and of slurmctld.
    pub fn print_logs(&self) {
        for name in ["control", "n1", "n2", "n3", "n4", "slurmctld"] {
            let text = fs::read(self.folder.join(format!("log/{name}.log"))).unwrap_or_default();
            let text = String::from_utf8_lossy(&text);
            let lines: Vec<&str> = text.lines().filter(|line| !line.contains("show_")).collect();
            println!("---- {name}.log\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// Gives a file or a whole tree to a user.
pub fn own(path: &Path, user: User) {
    chown(path, Some(user.id), Some(user.id)).expect("the tests run as root");
    fs::set_permissions(path, fs::Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 }))
        .expect("the tests run as root");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("it is ours").flatten() {
            own(&entry.path(), user);
        }
    }
}

fn run(command: &mut Command) -> Outcome {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Outcome { status: output.status, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}
