//! The processes that belong to one folder, found by their command lines: no process of anybody else is ever seen.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// One of the project's processes, and its identity: a process id alone may be used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Kernel ticks after boot at which it started.
    pub started: u64,
    /// Its command line.
    pub arguments: Vec<String>,
}

impl Process {
    /// The program's name without its folder.
    pub fn program(&self) -> &str {
        let path = self.arguments.first().map_or("", String::as_str);
        path.rsplit('/').next().unwrap_or(path)
    }

    /// Whether an argument is exactly `text`.
    pub fn has_argument(&self, text: &str) -> bool {
        self.arguments.iter().any(|argument| argument == text)
    }

    /// Whether it is still there.
    pub fn is_alive(&self) -> bool {
        read_start(self.pid) == Some(self.started)
    }

    /// Sends a signal; a process that is gone already is no error.
    pub fn signal(&self, signal: Signal) {
        if self.is_alive() {
            let pid = Pid::from_raw(self.pid).expect("no process has the id 0");
            let _ = kill_process(pid, signal);
        }
    }

    /// Stops it for as long as the result lives, also when the test fails meanwhile.
    #[must_use]
    pub fn stop(&self) -> Stopped {
        self.signal(Signal::STOP);
        Stopped(self.clone())
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
        let gone = wait_until(Duration::from_secs(20), || !self.is_alive());
        assert!(gone, "{self:?} is still there 20 s after kill -9");
    }
}

/// A process that is stopped; it goes on when this is dropped.
#[derive(Debug)]
pub struct Stopped(Process);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.signal(Signal::CONT);
    }
}

/// Every living process with `folder` in its command line, except the asking one.
pub fn of_folder(folder: &Path) -> Vec<Process> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own)
        .filter_map(|pid| read_process(pid, folder))
        .collect()
}

/// What a cluster consists of: our programs, and shells that run job scripts.
const NAMES: [&str; 5] = ["forebay", "srun", "bash", "sh", "job.sh"];

fn read_process(pid: i32, folder: &Path) -> Option<Process> {
    // The kernel makes a reader of a command line wait while that process waits for a page of a mapped file, which may
    // be on a mount whose server a test has just killed. The name is read without.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if !NAMES.iter().any(|known| name.trim_end() == *known || name.starts_with("forebay-")) {
        return None;
    }
    let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let needle = folder.as_os_str().as_bytes();
    if !line.windows(needle.len()).any(|window| window == needle) {
        return None;
    }
    let arguments =
        line.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect();
    Some(Process { pid, started: read_start(pid)?, arguments })
}

/// Field 22 of `/proc/PID/stat` (proc(5)); `None` when the process is gone or a zombie.
fn read_start(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether every thread of a process stands still after SIGSTOP.
pub fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
    })
}

/// Mount points at or below `folder`, deepest mount last.
pub fn mounts_of(folder: &Path) -> Vec<PathBuf> {
    let Ok(table) = fs::read_to_string("/proc/self/mountinfo") else { return Vec::new() };
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(folder))
        .collect()
}

/// Asks until `condition` holds; `false` if it does not within `limit`.
pub fn wait_until(limit: Duration, condition: impl FnMut() -> bool) -> bool {
    ask_until(limit, Duration::from_millis(2), condition)
}

/// The same for a condition that starts a process: asked so seldom that what is waited for gets the processor.
pub fn wait_until_told(limit: Duration, condition: impl FnMut() -> bool) -> bool {
    ask_until(limit, Duration::from_millis(100), condition)
}

fn ask_until(limit: Duration, pause: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(pause);
    }
}
