//! System calls of a storage node that fail, as strace makes them.

use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tests::processes::wait_until;

use crate::ground::Ground;

/// So long calls fail, at most, milliseconds.
const FAILING_MAX_MS: u64 = 400;

impl Ground {
    /// Every third of these calls fails with this error for a moment; then the node is started again.
    #[track_caller]
    pub fn fail_calls(&mut self, calls: &str, error: &str) {
        let n = self.any_storage();
        let node = self.site.storage[n].pid().expect("it runs").as_raw_nonzero().to_string();
        let mut strace = Command::new("strace")
            .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={calls}")])
            .args(["-e", &format!("inject={calls}:error={error}:when=1+3"), "-p", &node])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace is installed");
        let status = format!("/proc/{node}/status");
        let is_traced = || {
            let text = std::fs::read_to_string(&status).unwrap_or_default();
            text.lines().any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        };
        assert!(wait_until(Duration::from_secs(10), is_traced), "strace does not attach");
        self.pause(FAILING_MAX_MS);
        // Told to end, it lets go of the node first.
        kill_process(Pid::from_child(&strace), Signal::TERM).expect("it is not reaped yet");
        let _status = strace.wait().expect("it is our child");
        self.site.storage[n].kill();
        self.site.storage[n].start();
    }
}
