//! A node whose folder another process has still.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Nothing here takes longer, even on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A process of ours, killed at the end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        self.0.wait().unwrap();
    }
}

/// Something that has the lock of the node with this folder for so many seconds, as one that was killed and is ending.
fn hold(folder: &Path, seconds: &str) -> Running {
    let script = r#"exec 9>>"$0/node.lock"; flock 9; echo $$ >"$0/node.lock"; : >"$0/held"; exec sleep "$1""#;
    let holder = Command::new("sh").args(["-c", script]).arg(folder).arg(seconds).spawn().unwrap();
    until("the lock is held", || disk::exists(&folder.join("held")).unwrap());
    Running(holder)
}

fn node(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-node"));
    command.arg("--dir").arg(folder).args(["--name", "n1"]).stdin(Stdio::null());
    command
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_node_waits_for_its_killed_predecessor_to_be_gone() {
    let folder = tempfile::tempdir().unwrap();
    let _holder = hold(folder.path(), "1.5");
    let log = fs::File::create(folder.path().join("log")).unwrap();
    let mut node = Running(node(folder.path()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
    let said = || fs::read_to_string(folder.path().join("log")).unwrap();
    until("the node runs", || {
        assert!(node.0.try_wait().unwrap().is_none(), "it does not run: {}", said());
        disk::exists(&folder.path().join("node.sock")).unwrap()
    });
    assert_eq!(said().matches("wait for process").count(), 1, "{}", said());
}

#[test]
fn a_node_whose_folder_is_in_use_names_the_process_that_uses_it() {
    let folder = tempfile::tempdir().unwrap();
    let holder = hold(folder.path(), "600");
    let refused = node(folder.path()).output().unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&[refused.stdout, refused.stderr].concat()).into_owned();
    let expected = format!("node.lock is held by process {} (sleep)", holder.0.id());
    assert!(said.contains(&expected) && said.contains(&format!("`kill {}`", holder.0.id())), "{said}");
}
