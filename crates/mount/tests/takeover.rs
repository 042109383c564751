//! A mount process is killed under a program's open file, and another goes on, with a real storage node in this
//! process.
//!
//! Needs root and `/dev/fuse`; where there are none, the test says so and does nothing.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "a test that cannot go on fails")]

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use fuse::device::Device;
use fuse::mount::unmount;
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use store::Server;
use wire::control::{Owner, VolumeKind};
use wire::data::Credential;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, MountSpec, NamespaceSpec, NamespaceTarget, StorageAddress};

/// Each byte of the buffer's key, in hexadecimal.
const KEY: &str = "5a";

/// One storage node and a mount of its namespace, supervised by the test.
struct Mounted {
    folder: tempfile::TempDir,
    _server: Arc<Server>,
    process: Child,
    device: Device,
}

impl Mounted {
    /// `None` where that cannot be tested.
    fn new() -> Option<Mounted> {
        let fuse = OpenOptions::new().write(true).open("/dev/fuse");
        if !rustix::process::geteuid().is_root() || fuse.is_err() {
            eprintln!("skipped: needs root and /dev/fuse");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let (server, target) = storage(folder.path());
        let mountpoint = folder.path().join("mnt");
        std::fs::create_dir(&mountpoint).unwrap();
        let spec = MountSpec {
            id: "1-striped".into(),
            mountpoint,
            target,
            exclusive: false,
            behaviour: Default::default(),
        };
        std::fs::write(folder.path().join("spec.json"), serde_json::to_vec(&spec).unwrap()).unwrap();
        let process = start(folder.path(), None);
        let socket = UnixStream::connect(folder.path().join("device.sock")).unwrap();
        let device = Device::receive(&socket).unwrap();
        Some(Mounted { folder, _server: server, process, device })
    }

    fn mountpoint(&self) -> PathBuf {
        self.folder.path().join("mnt")
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn take_over(&mut self) {
        self.process = start(self.folder.path(), Some(&self.device));
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        unmount(&self.mountpoint()).unwrap();
        self.process.wait().unwrap();
    }
}

fn storage(folder: &Path) -> (Arc<Server>, NamespaceTarget) {
    let server = Server::open(folder.join("fragments"), NodeName::literal("n0")).unwrap();
    let (tcp, unix) = (TcpListener::bind("127.0.0.1:0").unwrap(), folder.join("data.sock"));
    let address = StorageAddress {
        node: NodeName::literal("n0"),
        tcp: tcp.local_addr().unwrap().to_string(),
        unix: Some(unix.clone()),
    };
    server.listen(tcp, UnixListener::bind(&unix).unwrap()).unwrap();
    let target = NamespaceTarget {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        credential: Key::from_hex(&KEY.repeat(32)).map(Credential::member),
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        nodes: vec![address],
        grace_ms: 10_000,
    };
    let owner = Owner { uid: 0, gid: 0 };
    let fragment = FragmentSpec {
        instance: InstanceId::literal("i1"),
        index: FragmentIndex(0),
        capacity_bytes: 1 << 24,
        volume: VolumeKind::Directory,
        key: KEY.repeat(32),
        peers: target.nodes.clone(),
        namespaces: vec![NamespaceSpec {
            id: 0,
            layout: target.layout,
            home: FragmentIndex(0),
            owner,
            mode: 0o755,
        }],
        missing: wire::node::Missing::Made,
        ..FragmentSpec::default()
    };
    server.create_fragment(&fragment).unwrap();
    (server, target)
}

/// Starts a mount process and waits until it serves.
fn start(folder: &Path, resume: Option<&Device>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-mount"));
    command.arg("--spec").arg(folder.join("spec.json")).stdout(Stdio::piped());
    if let Some(device) = resume {
        command.arg("--resume").stdin(device.as_fd().try_clone_to_owned().unwrap());
    }
    let mut process = command.spawn().unwrap();
    let mut first = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "mounted\n");
    process
}

/// A shell in the mount. Not this process: it must not hold a file that nobody serves while it starts another process.
struct Shell {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn new(folder: &Path) -> Shell {
        let mut process = Command::new("bash")
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Shell { process, answers }
    }

    fn say(&mut self, command: &str) {
        writeln!(self.process.stdin.as_mut().unwrap(), "{command}; echo").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, command: &str) -> String {
        self.say(command);
        self.hear()
    }

    fn end(mut self) {
        drop(self.process.stdin.take());
        assert!(self.process.wait().unwrap().success());
    }
}

#[test]
fn a_program_keeps_its_open_files_when_the_mount_process_is_killed() {
    let Some(mut mounted) = Mounted::new() else { return };
    let mut shell = Shell::new(&mounted.mountpoint());
    assert_eq!(shell.ask("exec 3<>f; printf one >&3; rm f; printf $?"), "0");
    for (n, word) in ["two", "three"].into_iter().enumerate() {
        mounted.kill();
        // Asked while nobody serves: it waits for the successor, and is done once.
        shell.say(&format!("printf {word} >&3; mkdir d{n}; printf $?"));
        mounted.take_over();
        assert_eq!(shell.hear(), "0");
    }
    // The file has no name any more: what is there was kept because it is open.
    assert_eq!(shell.ask("perl -e 'seek STDIN, 0, 0; print <STDIN>' <&3"), "onetwothree");
    assert_eq!(shell.ask("ls | xargs printf '%s '"), "d0 d1");
    shell.end();
}

#[test]
fn a_lock_outlives_the_mount_process_and_ends_with_its_holder() {
    let Some(mut mounted) = Mounted::new() else { return };
    let mut holder = Shell::new(&mounted.mountpoint());
    assert_eq!(holder.ask("exec 3<>g; flock 3; printf $?"), "0");
    mounted.kill();
    mounted.take_over();
    let mut other = Shell::new(&mounted.mountpoint());
    assert_eq!(other.ask("flock -n g true; printf $?"), "1");
    other.say("flock g true; printf $?");
    holder.end();
    assert_eq!(other.hear(), "0");
    other.end();
}
