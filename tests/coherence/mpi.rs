//! MPI-IO with ranks on four nodes: data sieving and atomic mode rely on range locks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::hosts::plain;

use crate::site::Site;

/// A rank on each of these addresses; see scripts/cluster/settings.
const ADDRESSES: &str = "10.77.0.11,10.77.0.12,10.77.0.13,10.77.0.14";

/// MPI programs hang where anything is wrong.
const LIMIT_S: &str = "100";

/// Compiles the program with `compiler` and writes what stands for ssh; both where every node sees them.
fn prepare(site: &Site, compiler: &str) -> (PathBuf, PathBuf) {
    let folder = site.hosts.folder().join(compiler);
    fs::create_dir(&folder).expect("the folder is ours");
    let (program, launcher) = (folder.join("program"), folder.join("launcher"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/coherence/mpi.c");
    run(Command::new(compiler).args(["-O1", "-Wall", "-Werror", source, "-o", plain(&program)]));
    fs::write(&launcher, include_str!("launcher.sh")).expect("the folder is ours");
    fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
    (program, launcher)
}

/// Runs `mpiexec` with `options` on the head's network; the file system that it starts from is this machine's, as it
/// has to reach the nodes.
fn mpiexec(site: &Site, mpiexec: &str, options: &[&str], program: &Path, arguments: &[&str]) {
    let head = site.hosts.first_process("head").to_string();
    let on = site.hosts.script("on").get_program().to_owned();
    let mut command = Command::new("timeout");
    command
        .args([LIMIT_S, "nsenter", "--target", &head, "--net", "--uts", "--", mpiexec])
        .args(options)
        .arg(program)
        .args(arguments)
        .env("FOREBAY_CLUSTER_DIR", site.hosts.folder())
        // The nodes are one machine, but see nothing of each other's memory.
        .env("UCX_TLS", "tcp,self")
        .env("FOREBAY_ON", on);
    let said = run(&mut command);
    let right = program.with_extension("right");
    assert!(right.is_file(), "{said}");
    fs::remove_file(right).expect("the folder is ours");
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

pub fn mpich(site: &Site) {
    let (program, launcher) = prepare(site, "mpicc.mpich");
    let folder = site.folder().inside("");
    let options =
        ["-iface", "cluster0", "-launcher", "ssh", "-launcher-exec", plain(&launcher), "-hosts", ADDRESSES];
    mpiexec(site, "mpiexec.mpich", &options, &program, &[plain(&folder), "atomic"]);
}

/// With its own OMPIO, and with ROMIO, which has data sieving and atomic mode.
pub fn open_mpi(site: &Site) {
    let (program, launcher) = prepare(site, "mpicc.openmpi");
    let common = [
        "--allow-run-as-root",
        "--host",
        ADDRESSES,
        "--mca",
        "plm_rsh_agent",
        plain(&launcher),
        "--mca",
        "oob_tcp_if_include",
        "10.77.0.0/24",
        "--mca",
        "btl",
        "tcp,self",
        "--mca",
        "btl_tcp_if_include",
        "10.77.0.0/24",
        "--mca",
        "io",
    ];
    for (io, rest) in [("ompio", None), ("romio321", Some("atomic"))] {
        let folder = site.folder().inside("");
        let arguments: Vec<&str> = [plain(&folder)].into_iter().chain(rest).collect();
        mpiexec(site, "mpiexec.openmpi", &[&common[..], &[io]].concat(), &program, &arguments);
    }
}
