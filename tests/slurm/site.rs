//! The cluster of the tests: its users, its jobs and its Slurm.

use std::fs;
use std::ops::Deref;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use tests::cluster::Outcome;
use tests::hosts::Hosts;
use tests::processes::wait_until;
use tests::runner::Site as Shared;

use crate::job::Job;

/// Slurm polls Forebay every 30 s, and starts again what it lost after 60 s.
const SETTLED: Duration = Duration::from_secs(100);

/// How many compute nodes there are; half of them are storage nodes too.
const NODES: usize = 4;

pub use tests::hosts::{ADA, GRACE, User};

/// A running cluster.
pub struct Site {
    hosts: Hosts,
    numbers: AtomicU32,
}

/// Most of what tests do is done to the hosts.
impl Deref for Site {
    type Target = Hosts;

    fn deref(&self) -> &Hosts {
        &self.hosts
    }
}

impl Shared for Site {
    fn assert_nothing_left(&self) {
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

    fn print_logs(&self) {
        self.hosts.print_logs(&["control", "n1", "n2", "n3", "n4", "slurmctld"]);
    }

    fn down(&self) {
        self.hosts.down();
    }
}

impl Site {
    /// Starts it.
    pub fn up() -> Site {
        Site { hosts: Hosts::up(NODES, &[]), numbers: AtomicU32::new(0) }
    }

    /// A folder on the parallel file system for one test, owned by `user`.
    pub fn pfs(&self, user: User, name: &str) -> PathBuf {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder().join("pfs").join(user.name).join(format!("{name}-{number}"));
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
        let file = self.folder().join("state/slurmctld/job_state");
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
        self.folder().join("mnt")
    }

    /// Where the `forebay-node` of a host keeps its state.
    pub fn state_of(&self, host: &str) -> PathBuf {
        self.folder().join("state").join(host)
    }

    /// `dwcli WORDS...`, as an operator.
    pub fn dwcli(&self, words: &[&str]) -> Outcome {
        self.on("head", &[&[self.program("dwcli").as_str()], words].concat())
    }

    /// `forebay WORDS...`, as an operator.
    pub fn forebay(&self, words: &[&str]) -> Outcome {
        let program = self.folder().join("bin/forebay");
        self.on("head", &[&[program.to_str().expect("a plain name")], words].concat())
    }

    /// `dw_wlm_cli WORDS...`, as Slurm's user.
    pub fn shim(&self, words: &[&str]) -> Outcome {
        let cache = self.cache();
        let user = ["setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups", "env", cache.as_str()];
        self.on("head", &[&user[..], &[self.program("dw_wlm_cli").as_str()], words].concat())
    }

    /// Where the shim keeps what it last knew, as `up` tells slurmctld.
    fn cache(&self) -> String {
        format!("FOREBAY_CACHE={}/state/wlm-cache", self.folder().display())
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
