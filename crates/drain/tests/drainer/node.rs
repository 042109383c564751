//! A drainer as a process, with a node's folder.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use drain::rendezvous::Rendezvous;
use drain::status::{Answer, Status};
use tempfile::TempDir;

/// Nothing here takes longer, even on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A node's drainer.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) from: PathBuf,
    pub(crate) to: PathBuf,
    pub(crate) words: &'static [&'static str],
    /// A library that is loaded into the drainer.
    pub(crate) preload: Option<PathBuf>,
    /// Its own folder, where that is not in the drained one.
    pub(crate) state: Option<PathBuf>,
    pub(crate) running: Option<Child>,
}

impl Node {
    pub(crate) fn new(root: &TempDir, name: &'static str, words: &'static [&'static str]) -> Node {
        let (from, to) = (root.path().join(name), root.path().join("pfs"));
        fs::create_dir(&from).unwrap();
        fs::create_dir_all(&to).unwrap();
        Node { name, from, to, words, preload: None, state: None, running: None }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.state.clone().unwrap_or_else(|| self.from.join(".forebay-drain"))
    }

    pub(crate) fn start(&mut self) {
        self.running = Some(self.command().spawn().unwrap());
    }

    /// Waits until the drainer says this of itself.
    pub(crate) fn wait_said(&self, what: &str, so: impl Fn(&Status) -> bool) {
        let (begun, rendezvous) = (Instant::now(), Rendezvous::new(self.to.join(".forebay-drain/s")));
        while !rendezvous.statuses().unwrap_or_default().iter().any(&so) {
            assert!(begun.elapsed() < LIMIT, "{what}: {:?}", rendezvous.statuses());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-drain"));
        let session = if self.words.contains(&"--session") { &[][..] } else { &["--session", "s"] };
        command.args(session).args(["--bursts", "ignore", "--host", self.name]).args(self.words);
        command.arg("--from").arg(&self.from).arg("--to").arg(&self.to).stdin(Stdio::null());
        if let Some(library) = &self.preload {
            command.env("LD_PRELOAD", library);
        }
        command
    }

    /// Has it decide about all that is owed.
    pub(crate) fn settle(&self) -> Answer {
        let begun = Instant::now();
        loop {
            if let Ok(Some(answer)) = drain::settle(&self.state()) {
                return answer;
            }
            assert!(begun.elapsed() < LIMIT, "the drainer does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Ends it as its user does.
    pub(crate) fn stop(&mut self) {
        drain::order(&self.state(), drain::Order::Stop).unwrap();
        self.running.take().unwrap().wait().unwrap();
    }

    /// Starts it, and gives what it says when it ends at once.
    pub(crate) fn refused(&mut self) -> String {
        let mut started = self.command().stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let begun = Instant::now();
        while started.try_wait().unwrap().is_none() && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
        // One that runs is ended: it would be waited for without end.
        let _ended = started.kill();
        let output = started.wait_with_output().unwrap();
        assert!(output.status.code().is_some_and(|code| code != 0), "it runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What each library begins with.
const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
/* The path of what is open, and its length; 0 where there is none. */
__attribute__((unused)) static ssize_t path_of(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) length = 0;
    path[length] = 0;
    return length;
}
/* Has the kernel judge each system call of this process from now on. */
__attribute__((unused)) static void judge(struct sock_filter *filter, unsigned short count) {
    struct sock_fprog program = {count, filter};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}
"#;

/// A library of this source, for a drainer.
pub(crate) fn library(root: &TempDir, text: &str) -> PathBuf {
    let (source, library) = (root.path().join("library.c"), root.path().join("library.so"));
    fs::write(&source, format!("{PRELUDE}{text}")).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.unwrap().success());
    library
}
