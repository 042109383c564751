//! One state folder with everything that runs in it, and a working folder for the jobs.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use crate::processes::{self, Process, wait_until};

/// No command of the suite takes longer, even on a machine with two busy cores; one that does hangs.
const COMMAND_LIMIT: Duration = Duration::from_secs(180);

/// Services shut down by themselves after the last session; this is how long they may take.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(20);

/// The folder of the programs under test: where the asking program is, or above it for a test in `deps`.
pub fn program_folder() -> PathBuf {
    let own = std::env::current_exe().expect("/proc is mounted");
    let folder = own.parent().expect("a program is in a folder");
    let folder =
        if folder.ends_with("deps") { folder.parent().expect("deps is in target/release") } else { folder };
    assert!(folder.join("forebay").exists(), "no forebay in {}: run make build first", folder.display());
    folder.to_owned()
}

/// The folder of the example jobs: beside the programs' `target`, else in the source tree.
pub fn examples_folder() -> PathBuf {
    let beside = program_folder().join("../../examples");
    if beside.exists() { beside } else { Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples") }
}

/// What a finished command left.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// What it printed on standard output.
    pub stdout: String,
    /// What it printed on standard error.
    pub stderr: String,
}

impl Outcome {
    /// The exit code; 128 + N for a command that signal N ended, as a shell says.
    pub fn code(&self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Itself, if the command succeeded.
    #[track_caller]
    pub fn expect_success(self) -> Outcome {
        assert!(self.status.success(), "failed with {}\n{}\n{}", self.code(), self.stdout, self.stderr);
        self
    }

    /// The last line of standard output as JSON: the lines before it are the job's.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.stdout.lines().last().unwrap_or(""))
            .unwrap_or_else(|error| panic!("not JSON ({error}):\n{}\n{}", self.stdout, self.stderr))
    }
}

/// A command that runs.
pub struct Running {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Sends a signal to the command and everything in its process group, as a terminal's Ctrl-C does.
    pub fn signal_group(&self, signal: Signal) {
        let group = Pid::from_child(&self.child);
        kill_process_group(group, signal).expect("the group's leader is not reaped yet");
    }

    /// `kill -9` of the command's own process only.
    pub fn kill(mut self) {
        self.child.kill().expect("the process is not reaped yet");
        self.child.wait().expect("the process is our child");
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("the process is our child").is_none()
    }

    /// What it printed so far: standard output, then standard error.
    pub fn output(&self) -> String {
        [&self.stdout, &self.stderr].map(|path| fs::read_to_string(path).unwrap_or_default()).concat()
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> Outcome {
        let ended = wait_until(COMMAND_LIMIT, || !self.is_running());
        let status = if ended {
            self.child.wait().expect("the process is our child")
        } else {
            self.child.kill().expect("the process is not reaped yet");
            panic!("a command hangs; it printed:\n{}", self.output());
        };
        let [stdout, stderr] = [&self.stdout, &self.stderr]
            .map(|path| String::from_utf8_lossy(&fs::read(path).expect("we made it")).into());
        Outcome { status, stdout, stderr }
    }
}

/// One state folder, one working folder.
pub struct Cluster {
    base: TempDir,
    /// The state folder.
    pub state: PathBuf,
    /// The folder that commands and jobs start in.
    pub work: PathBuf,
    commands: std::cell::Cell<u32>,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// Empty folders in the temporary folder.
    pub fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    /// Empty folders in `parent`, with short names: a unix socket's path has at most 107 bytes.
    pub fn new_in(parent: &Path) -> Self {
        let base =
            tempfile::Builder::new().prefix("fb").tempdir_in(parent).expect("temporary folders are writable");
        let state = base.path().join("s");
        let work = base.path().join("w");
        fs::create_dir(&work).expect("the folder is ours");
        Self { base, state, work, commands: 0.into() }
    }

    /// The folder that holds both, for mount points and parallel file systems of a test.
    pub fn folder(&self) -> &Path {
        self.base.path()
    }

    /// A `forebay` command line on this cluster's state folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program_folder().join("forebay"));
        command.args(arguments).arg("--dir").arg(&self.state).current_dir(&self.work);
        command
    }

    /// Starts a command, as the leader of its own process group.
    pub fn spawn(&self, mut command: Command) -> Running {
        let number = self.commands.get();
        self.commands.set(number + 1);
        let [stdout, stderr] = ["out", "err"].map(|name| self.base.path().join(format!("{name}{number}")));
        let [out, err] = [&stdout, &stderr].map(|path| File::create(path).expect("the folder is ours"));
        command
            .env_remove("XDG_STATE_HOME")
            .env_remove("FOREBAY_DIR")
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
        Running { child, stdout, stderr }
    }

    /// Starts `forebay ARGUMENTS`.
    pub fn start(&self, arguments: &[&str]) -> Running {
        self.spawn(self.command(arguments))
    }

    /// Runs `forebay ARGUMENTS` to its end.
    #[track_caller]
    pub fn forebay(&self, arguments: &[&str]) -> Outcome {
        self.start(arguments).wait()
    }

    /// Writes a job script into the working folder; returns its path.
    pub fn script(&self, text: &str) -> String {
        let path = self.work.join("job.sh");
        fs::write(&path, text).expect("the folder is ours");
        path.to_str().expect("temporary folders have plain names").to_owned()
    }

    /// Writes a job script and runs it to its end.
    #[track_caller]
    pub fn run(&self, script: &str, options: &[&str]) -> Outcome {
        let path = self.script(script);
        self.forebay(&[&["run", path.as_str()], options].concat())
    }

    /// Makes a folder for a test's parallel file system.
    pub fn pfs(&self, name: &str) -> PathBuf {
        let path = self.base.path().join(name);
        fs::create_dir_all(&path).expect("the folder is ours");
        path
    }

    /// `forebay status --json`.
    #[track_caller]
    pub fn status(&self) -> serde_json::Value {
        self.forebay(&["status", "--json"]).expect_success().json()
    }

    /// The tokens of every session that `forebay status` lists.
    #[track_caller]
    pub fn tokens(&self) -> Vec<String> {
        let status = self.status();
        let sessions = status["sessions"].as_array().unwrap_or_else(|| panic!("no sessions in {status}"));
        sessions
            .iter()
            .map(|session| session["token"].as_str().expect("a token is a string").to_owned())
            .collect()
    }

    /// The processes that work on the state folder.
    pub fn processes(&self) -> Vec<Process> {
        processes::of_folder(&self.state)
    }

    /// Waits for a process of program `name` (with `argument` in its command line, if not empty) and returns it.
    #[track_caller]
    pub fn process(&self, name: &str, argument: &str) -> Process {
        let mut found = None;
        wait_until(Duration::from_secs(60), || {
            let is_it = |process: &Process| {
                process.program() == name && (argument.is_empty() || process.has_argument(argument))
            };
            found = self.processes().into_iter().find(is_it);
            found.is_some()
        });
        found.unwrap_or_else(|| {
            panic!("no process {name} {argument} within 60 s; there are {:#?}", self.processes())
        })
    }

    /// What is mounted at or below the cluster's folder, and was not mounted by the test itself.
    pub fn mounts(&self) -> Vec<PathBuf> {
        processes::mounts_of(self.base.path()).into_iter().filter(|point| !point.ends_with("disk")).collect()
    }

    /// Nothing is mounted and nothing runs, at once or after the time that services need to stop.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        let idle = wait_until(SHUTDOWN_LIMIT, || self.mounts().is_empty() && self.processes().is_empty());
        assert!(idle, "still mounted: {:#?}\nstill running: {:#?}", self.mounts(), self.processes());
    }

    /// Nothing is mounted, and no program runs that moves data.
    #[track_caller]
    pub fn assert_nothing_mounted(&self) {
        let busy =
            |process: &Process| matches!(process.program(), "forebay-mount" | "forebay-stage" | "forebay");
        let idle = wait_until(SHUTDOWN_LIMIT, || {
            !self.mounts().iter().any(|point| point.starts_with(self.state.join("mnt")))
                && !self.processes().iter().any(busy)
        });
        assert!(idle, "still mounted: {:#?}\nstill running: {:#?}", self.mounts(), self.processes());
    }

    fn print_logs(&self) {
        let Ok(logs) = fs::read_dir(self.state.join("log")) else { return };
        for log in logs.flatten() {
            let text = fs::read_to_string(log.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("---- {}\n{tail}", log.path().display());
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_logs();
        }
        // Control starts its nodes again and nodes their mounts: go on until a look finds none.
        wait_until(SHUTDOWN_LIMIT, || {
            let processes = self.processes();
            processes.iter().for_each(|process| process.signal(Signal::KILL));
            processes.is_empty()
        });
        for point in processes::mounts_of(self.base.path()).iter().rev() {
            if rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH).is_err() {
                let _ = Command::new("fusermount3").arg("-uz").arg(point).status();
            }
        }
        detach_loop_devices(self.base.path());
    }
}

/// Frees the loop devices whose images lie below `folder`.
fn detach_loop_devices(folder: &Path) {
    let Ok(devices) = fs::read_dir("/sys/block") else { return };
    for device in devices.flatten() {
        let Ok(image) = fs::read_to_string(device.path().join("loop/backing_file")) else { continue };
        if Path::new(&image).starts_with(folder) {
            let _ =
                Command::new("losetup").arg("-d").arg(Path::new("/dev").join(device.file_name())).status();
        }
    }
}
