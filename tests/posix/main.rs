//! The suites that local file systems pass, and real programs, on every kind of mount. As root only: `pjdfstest` changes
//! users, and a file is passed through to the kernel only for root.

#![expect(
    clippy::print_stdout,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod programs;
mod suites;

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::cluster::Cluster;

/// A mounted buffer.
struct Mounted {
    _cluster: Cluster,
    path: PathBuf,
}

/// One kind of mount: options of `forebay mount`.
#[derive(Clone, Copy)]
struct Kind(&'static [&'static str]);

/// One storage node in a volume: files are passed through to the kernel.
const PASSTHROUGH: Kind = Kind(&["--nodes", "1", "--volume", "image"]);
/// One storage node whose bytes are counted: every read and write goes through it.
const COUNTED: Kind = Kind(&["--nodes", "1", "--volume", "directory"]);
/// Stripes over four storage nodes, over TCP.
const STRIPED: Kind = Kind(&["--nodes", "4", "--volume", "directory"]);
/// Whole files on one of three storage nodes.
const PRIVATE: Kind = Kind(&["--nodes", "3", "--access-mode", "private", "--volume", "directory"]);

impl Kind {
    #[track_caller]
    fn mount(self) -> Mounted {
        let cluster = Cluster::new();
        let path = cluster.pfs("mnt");
        let text = path.to_str().expect("temporary folders have plain names");
        cluster.forebay(&[&["mount", text, "--capacity", "1GiB"], self.0].concat()).expect_success();
        Mounted { _cluster: cluster, path }
    }
}

/// Runs a command in `folder`; its output is shown when it fails.
#[track_caller]
fn run(command: &mut Command, folder: &Path) -> String {
    let output =
        command.current_dir(folder).output().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed with {}:\n{said}", output.status);
    said
}

/// Runs a script of bash in `folder`; the first command that fails ends it.
#[track_caller]
fn bash(script: &str, folder: &Path) {
    run(Command::new("bash").args(["-euo", "pipefail", "-c", script]), folder);
}
