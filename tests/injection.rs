//! Faults at system calls of a real process, by strace: the n-th call of a kind in each thread fails, or kills the
//! process.
//!
//! ```text
//! let calls = recorded(&log, folder);           // after a run under Trace::of(Fault::None)
//! for call in calls { ... Trace::of(Fault::Error("EIO", call)) ... }
//! ```
//!
//! **Invariant:** strace counts in each thread by itself, from the program's start or from the moment in which strace
//! is attached; so do the recordings. What is read and written by a descriptor counts for each file by itself, and
//! fails there only: the runtime wakes its threads by writing to an `eventfd`, which no disk refuses, and hangs if that
//! fails.

#![expect(
    clippy::unwrap_used,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::processes::wait_until;

/// Every call by which a node asks a file system anything. Its own `ioctl`s ask sockets and pipes not to block, which
/// no disk refuses; Rust's library panics if they do.
const CALLS: &str = "openat,openat2,statx,newfstatat,readlink,read,pread64,write,pwrite64,pwritev,fsync,fdatasync,syncfs,\
                     rename,renameat,renameat2,mkdir,mkdirat,unlink,unlinkat,rmdir,getdents64,mount,umount2,fallocate,\
                     ftruncate,statfs,fstatfs,lseek";

/// Those of them that also serve pipes, sockets and events.
const STREAMED: [&str; 2] = ["read", "write"];

/// One call: the n-th of its kind in a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// From 1.
    pub nth: usize,
    /// Of those to this file only.
    pub file: Option<PathBuf>,
}

impl Call {
    /// The n-th call of this name, whatever it is about.
    pub fn nth(name: &str, nth: usize) -> Call {
        Call { name: name.to_owned(), nth, file: None }
    }
}

/// What is done at a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing; all calls are recorded.
    None,
    /// It fails with this errno, and is not done.
    Error(&'static str, Call),
    /// The process is killed, with all its threads.
    Kill(Call),
    /// It and each such call after it, counted in steps, returns later by this time: `(call, step, by)`.
    Late(Call, usize, Duration),
}

/// What strace is to do, and where it writes.
#[derive(Debug)]
pub struct Trace {
    fault: Fault,
    log: PathBuf,
}

impl Trace {
    /// With `fault`; what was seen is in files that begin with `log`, one for each thread.
    pub fn of(fault: Fault, log: &Path) -> Trace {
        for old in files_of(log) {
            fs::remove_file(old).unwrap();
        }
        Trace { fault, log: log.to_owned() }
    }

    /// The command that runs what is added to it.
    fn command(&self) -> Command {
        let mut command = Command::new("strace");
        // Quicker; but the signals of injections do not arrive with it.
        command.args((!matches!(self.fault, Fault::Kill(_))).then_some("--seccomp-bpf"));
        command.args(["-ff", "-qq", "-y", "-o"]).arg(&self.log);
        self.say(&mut command);
        command
    }

    /// Attaches strace to a process that runs, until the result is dropped.
    pub fn attach(&self, pid: u32) -> Attached {
        let mut command = Command::new("strace");
        command.args(["-ff", "-qq", "-y", "-o"]).arg(&self.log).arg("-p").arg(pid.to_string());
        self.say(&mut command);
        let strace = command.stdout(Stdio::null()).spawn().unwrap();
        assert!(wait_until(Duration::from_secs(20), || all_traced(pid)), "strace does not attach");
        Attached { strace, pid }
    }

    fn say(&self, command: &mut Command) {
        let (call, what, step) = match &self.fault {
            Fault::None => {
                command.args(["-e", &format!("trace={CALLS}"), "-e", "signal=none"]);
                return;
            }
            Fault::Error(errno, call) => (call, format!("error={errno}"), String::new()),
            Fault::Kill(call) => (call, "signal=KILL".to_owned(), String::new()),
            Fault::Late(call, step, by) => {
                (call, format!("delay_exit={}", by.as_micros()), format!("+{step}"))
            }
        };
        let Call { name, nth, file } = call;
        command.args(["-e", &format!("trace={name}"), "-e", "signal=none"]);
        if let Some(file) = file {
            command.arg("-P").arg(file);
        }
        command.args(["-e", &format!("inject={name}:{what}:when={nth}{step}")]);
    }
}

/// The command that runs a program, under strace or not.
pub fn command(program: &Path, trace: Option<&Trace>) -> Command {
    let Some(trace) = trace else { return Command::new(program) };
    let mut command = trace.command();
    command.arg(program);
    command
}

/// A process that strace is attached to.
#[derive(Debug)]
pub struct Attached {
    strace: Child,
    pid: u32,
}

impl Drop for Attached {
    fn drop(&mut self) {
        // It lets go of the process, which goes on. Told so in the moment in which that dies, it may wait for ever.
        let lives = is_alive(self.pid);
        let signal = if lives { Signal::INT } else { Signal::KILL };
        let _gone_with_the_process = kill_process(Pid::from_child(&self.strace), signal);
        let ended =
            wait_until(Duration::from_secs(5), || self.strace.try_wait().is_ok_and(|end| end.is_some()));
        if !ended {
            let _gone = self.strace.kill();
            let _ = self.strace.wait();
        }
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

fn all_traced(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().all(|line| line != "TracerPid:\t0")
    })
}

/// The calls in a recording that name something in `folder`, sorted.
pub fn recorded(log: &Path, folder: &Path) -> Vec<Call> {
    let mut calls = BTreeSet::new();
    for file in files_of(log) {
        let text = String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
        let mut counts: BTreeMap<(&str, Option<PathBuf>), usize> = BTreeMap::new();
        for line in text.lines() {
            let Some((name, rest)) = line.split_once('(') else { continue };
            let file = STREAMED.contains(&name).then(|| PathBuf::from(descriptor(rest)));
            let nth = counts.entry((name, file.clone())).or_default();
            *nth += 1;
            let is_there = match &file {
                Some(file) => file.starts_with(folder),
                None => rest.contains(&*folder.to_string_lossy()),
            };
            if is_there {
                calls.insert(Call { name: name.to_owned(), nth: *nth, file });
            }
        }
    }
    calls.into_iter().collect()
}

/// What the descriptor is that a call's arguments begin with.
fn descriptor(arguments: &str) -> &str {
    arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or("", |(file, _)| file)
}

/// How many calls had their fault.
pub fn struck(log: &Path) -> usize {
    let text = |file: PathBuf| String::from_utf8_lossy(&fs::read(file).unwrap()).into_owned();
    files_of(log).into_iter().map(|file| text(file).matches("(INJECTED)").count()).sum()
}

fn files_of(log: &Path) -> Vec<PathBuf> {
    let start = format!("{}.", log.file_name().unwrap().to_string_lossy());
    let entries = fs::read_dir(log.parent().unwrap()).unwrap().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&start))
        .map(|e| e.path())
        .collect()
}
