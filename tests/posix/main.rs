//! The suites that local file systems pass, and real programs, on every kind of mount. As root only: `pjdfstest`
//! changes users, and a file is passed through to the kernel only for root.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(
    clippy::print_stdout,
    reason = "clippy.toml allows it in tests, but sees only functions marked #[test]"
)]

mod as_on_ext4;
mod descriptors;
mod pages;
mod programs;
mod suites;

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::cluster::Cluster;
use tests::hosts::{Hosts, plain};

/// A mounted buffer.
struct Mounted {
    home: Home,
    /// For this process.
    path: PathBuf,
}

/// What holds the mount.
enum Home {
    /// A state folder of this machine.
    Local { _cluster: Cluster },
    /// One of two hosts that have the same buffer mounted, and where.
    Shared { hosts: Hosts, mountpoint: PathBuf },
}

/// One kind of mount.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Options of `forebay mount`.
    Alone(&'static [&'static str]),
    /// On a node of a cluster, where another node has the same namespace mounted.
    Shared,
}

/// One storage node in a volume: files are passed through to the kernel.
const PASSTHROUGH: Kind = Kind::Alone(&["--nodes", "1", "--volume", "image"]);
/// One storage node whose bytes are counted: every read and write goes through it.
const COUNTED: Kind = Kind::Alone(&["--nodes", "1", "--volume", "directory"]);
/// Stripes over four storage nodes, over TCP.
const STRIPED: Kind = Kind::Alone(&["--nodes", "4", "--volume", "directory"]);
/// Whole files on one of three storage nodes.
const PRIVATE: Kind = Kind::Alone(&["--nodes", "3", "--access-mode", "private", "--volume", "directory"]);

/// Runs a script of bash, as [`Mounted::bash`] does, on every kind of mount that programs see a difference of.
#[track_caller]
fn everywhere(script: &str) {
    for kind in [PASSTHROUGH, COUNTED, STRIPED, Kind::Shared] {
        println!("on {kind:?}");
        kind.mount().bash(script);
    }
}

impl Kind {
    #[track_caller]
    fn mount(self) -> Mounted {
        match self {
            Kind::Alone(options) => {
                let cluster = Cluster::new();
                let path = cluster.pfs("mnt");
                let mount = ["mount", plain(&path), "--capacity", "1GiB"];
                cluster.forebay(&[&mount, options].concat()).expect_success();
                Mounted { home: Home::Local { _cluster: cluster }, path }
            }
            Kind::Shared => {
                let hosts =
                    Hosts::up(2, &[("FOREBAY_CLUSTER_SLURM", "no"), ("FOREBAY_CLUSTER_CAPACITY", "1GiB")]);
                let mountpoint = hosts.mount_buffer("1", "");
                let path = hosts.seen_from("n2", &mountpoint);
                Mounted { home: Home::Shared { hosts, mountpoint }, path }
            }
        }
    }
}

impl Mounted {
    /// Where it is mounted, for the commands that [`Mounted::command`] makes.
    fn inside(&self) -> &Path {
        match &self.home {
            Home::Local { .. } => &self.path,
            Home::Shared { mountpoint, .. } => mountpoint,
        }
    }

    /// A command that is started in the folder `folder` of the mount.
    fn command(&self, program: &Path, folder: &str) -> Command {
        let (folder, mut command) = (self.inside().join(folder), Command::new("env"));
        if let Home::Shared { hosts, .. } = &self.home {
            command = Command::new("nsenter");
            command.args([
                "--target",
                &hosts.first_process("n2").to_string(),
                "--mount",
                "--pid",
                "--",
                "env",
            ]);
        }
        command.arg("--chdir").arg(folder).arg(program);
        command
    }

    /// Runs a script of bash in the mount's root; the first command that fails ends it.
    #[track_caller]
    fn bash(&self, script: &str) {
        run(self.command(Path::new("bash"), "").args(["-euo", "pipefail", "-c", script]));
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if let Home::Shared { hosts, .. } = self {
            hosts.down();
        }
    }
}

/// Runs a command; its output is shown when it fails.
#[track_caller]
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"));
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?} failed with {}:\n{said}", output.status);
    said
}
