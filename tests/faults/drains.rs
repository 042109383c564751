//! A drainer whose start meets an error or its death at a single system call: it drains all the same, or it says what
//! is wrong, and the next one drains all.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tests::cluster::program_folder;
use tests::injection::{Fault, Trace, command, recorded, struck};
use tests::processes::wait_until;

use crate::site::is_named;
use crate::tried;

/// A node's folder and the PFS, with a drainer or without.
struct Flash {
    root: tempfile::TempDir,
    drainer: Option<Child>,
    files: usize,
}

impl Flash {
    fn new() -> Flash {
        let flash = Flash { root: tempfile::tempdir().unwrap(), drainer: None, files: 0 };
        fs::create_dir(flash.from()).unwrap();
        fs::create_dir(flash.to()).unwrap();
        flash
    }

    fn from(&self) -> PathBuf {
        self.root.path().join("flash")
    }

    fn to(&self) -> PathBuf {
        self.root.path().join("pfs")
    }

    fn trace_log(&self) -> PathBuf {
        self.root.path().join("trace")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap()
    }

    /// One file more that is owed.
    fn add(&mut self) {
        self.files += 1;
        fs::write(self.from().join(format!("file-{}", self.files)), vec![7; 5000 + self.files]).unwrap();
    }

    fn start(&mut self, trace: Option<&Trace>) {
        let mut command = command(&program_folder().join("forebay-drain"), trace);
        let log = fs::File::create(self.root.path().join("log")).unwrap();
        command.args(["--host", "n1", "--session", "s", "--bursts", "ignore"]);
        command.arg("--from").arg(self.from()).arg("--to").arg(self.to()).stdin(Stdio::null());
        self.drainer = Some(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// Waits until it answers, or has ended; says whether it answers.
    fn answers(&mut self) -> bool {
        let mut drainer = self.drainer.take().unwrap();
        let mut answers = false;
        let settled = wait_until(Duration::from_secs(30), || {
            answers = self.ask(&["pause"]).status.success() && self.ask(&["resume"]).status.success();
            answers || drainer.try_wait().unwrap().is_some()
        });
        assert!(settled, "it neither answers nor ends: {}", self.log());
        self.drainer = Some(drainer);
        answers
    }

    fn ask(&self, words: &[&str]) -> Output {
        let mut command = Command::new(program_folder().join("forebay"));
        command.arg("drain").args(words).env("PERSIST_DIR", self.from()).env("PFS_DIR", self.to());
        for name in ["SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "SLURM_JOB_END_TIME"] {
            command.env_remove(name);
        }
        command.output().unwrap()
    }

    /// Ends it, if it runs. Whether it was killed: strace ends as what it traces does.
    fn end(&mut self) -> bool {
        let Some(mut drainer) = self.drainer.take() else { return false };
        if drainer.try_wait().unwrap().is_none() {
            let _stopped = self.ask(&["stop"]);
            let ended = wait_until(Duration::from_secs(20), || drainer.try_wait().unwrap().is_some());
            if !ended {
                drainer.kill().unwrap();
            }
            assert!(ended, "it does not stop: {}", self.log());
        }
        drainer.wait().unwrap().signal() == Some(9)
    }

    /// Whether everything is on the PFS, as a drainer without faults says and as can be seen.
    fn assert_drained(&mut self, context: &dyn std::fmt::Debug) {
        self.start(None);
        assert!(self.answers(), "{context:?}: {}", self.log());
        let waited = self.ask(&["wait", "--session", "s", "--timeout", "60"]);
        let said = String::from_utf8_lossy(&waited.stderr).into_owned();
        assert!(waited.status.success(), "{context:?}: {said}");
        for number in 1..=self.files {
            let name = format!("file-{number}");
            let there = fs::read(self.to().join(&name)).unwrap_or_default();
            assert!(there == vec![7; 5000 + number], "{context:?}: {name} is not on the PFS");
        }
        self.end();
    }
}

impl Drop for Flash {
    fn drop(&mut self) {
        self.end();
    }
}

fn survives(fault: impl Fn(tests::injection::Call) -> Fault, refuses: bool) {
    let mut flash = Flash::new();
    flash.add();
    flash.assert_drained(&"at first");
    let (log, root) = (flash.trace_log(), flash.root.path().to_owned());
    flash.add();
    flash.start(Some(&Trace::of(Fault::None, &log)));
    assert!(flash.answers());
    flash.end();
    let (mut hits, mut refusals, mut deaths) = (0, 0, 0);
    for call in tried(recorded(&log, &root)) {
        flash.add();
        flash.start(Some(&Trace::of(fault(call.clone()), &log)));
        if !flash.answers() && refuses {
            refusals += 1;
            let words = flash.log().lines().last().unwrap_or_default().to_owned();
            assert!(is_named(&words, &root), "{call:?}: {}", flash.log());
        }
        deaths += usize::from(flash.end());
        hits += struck(&log);
        flash.assert_drained(&call);
    }
    let enough = if refuses { hits > 10 && refusals > 3 } else { deaths > 5 };
    assert!(enough, "{hits} errors, {refusals} refusals, {deaths} deaths");
}

#[test]
fn an_error_of_any_call_of_a_drainers_start_is_named_and_loses_nothing() {
    survives(|call| Fault::Error("EIO", call), true);
}

#[test]
fn a_death_at_any_call_of_a_drainers_start_loses_nothing() {
    survives(Fault::Kill, false);
}
