//! A storage node in a folder of its own, and what was written into its fragments.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, Contents, Creator, Errno, Names, ROOT, RequestId::New};
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use tests::cluster::program_folder;
use tests::injection::{Trace, command};
use tests::processes::{mounts_of, wait_until};
use wire::control::{Owner, VolumeKind};
use wire::data::Credential;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, NodeHealth};

pub const ME: Creator = Creator { uid: 0, gid: 0, umask: 0 };
pub const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const FILES: u8 = 12;

pub struct Site {
    root: tempfile::TempDir,
    name: &'static str,
    node: Option<Child>,
}

impl Site {
    pub fn new() -> Site {
        Site::named("n1")
    }

    pub fn named(name: &'static str) -> Site {
        Site { root: tempfile::tempdir().unwrap(), name, node: None }
    }

    /// The node's folder.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join(self.name)
    }

    pub fn fragments(&self) -> PathBuf {
        self.folder().join("fragments")
    }

    /// Where strace writes.
    pub fn trace_log(&self) -> PathBuf {
        self.root.path().join("trace")
    }

    /// Starts the node, under strace or not. Its last words if it does not start.
    pub fn start(&mut self, trace: Option<&Trace>) -> Result<NodeHealth, String> {
        fs::create_dir_all(self.folder()).unwrap();
        let mut command = command(&program_folder().join("forebay-node"), trace);
        let log = fs::File::create(self.root.path().join("log")).unwrap();
        command.args(["--name", self.name, "--roles", "storage", "--dir"]).arg(self.folder());
        let mut node = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let (mut ended, mut health) = (false, None);
        wait_until(Duration::from_secs(60), || {
            ended = node.try_wait().unwrap().is_some();
            health = if ended { None } else { self.health() };
            ended || health.is_some()
        });
        self.node = Some(node);
        health.ok_or_else(|| {
            assert!(ended, "the node neither starts nor ends: {}", self.log());
            self.log().lines().last().unwrap_or_default().to_owned()
        })
    }

    /// Starts it without any fault.
    pub fn start_well(&mut self) -> NodeHealth {
        self.start(None).unwrap_or_else(|words| panic!("the node does not start: {words}"))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.root.path().join("log")).unwrap()
    }

    /// Ends it in order, if it runs.
    pub fn stop(&mut self) {
        let Some(mut node) = self.node.take() else { return };
        if node.try_wait().unwrap().is_none() {
            let _ends_while_it_answers = self.call("POST", "/v1/shutdown", Some("{}".into()));
            assert!(wait_until(Duration::from_secs(30), || node.try_wait().unwrap().is_some()));
        }
    }

    /// Waits for a death that was ordered.
    pub fn await_death(&mut self) {
        let mut node = self.node.take().unwrap();
        let dead = wait_until(Duration::from_secs(20), || node.try_wait().unwrap().is_some());
        if !dead {
            node.kill().unwrap();
            node.wait().unwrap();
            panic!("the node lives: {}", self.log());
        }
    }

    pub fn pid(&self) -> u32 {
        self.node.as_ref().unwrap().id()
    }

    pub fn health(&self) -> Option<NodeHealth> {
        let (status, body) = self.call("GET", "/v1/health", None)?;
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    /// Makes a fragment; what the node says of an error.
    pub fn create(&self, instance: &str, volume: VolumeKind) -> Result<(), String> {
        self.make(&spec(instance, volume, self.health().ok_or(String::new())?))
    }

    /// The same of any.
    pub fn make(&self, spec: &FragmentSpec) -> Result<(), String> {
        let text = serde_json::to_string(spec).unwrap();
        self.succeed("PUT", &format!("/v1/fragments/{}", spec.instance), Some(text))
    }

    pub fn delete(&self, instance: &str) -> Result<(), String> {
        self.succeed("DELETE", &format!("/v1/fragments/{instance}"), None)
    }

    fn succeed(&self, method: &str, path: &str, body: Option<String>) -> Result<(), String> {
        match self.call(method, path, body) {
            Some((200, _)) => Ok(()),
            Some((_, body)) => Err(body),
            None => Err(String::new()),
        }
    }

    fn call(&self, method: &str, path: &str, body: Option<String>) -> Option<(u16, String)> {
        let mut stream = UnixStream::connect(self.folder().join("node.sock")).ok()?;
        let body = body.unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: n1\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.set_read_timeout(Some(HANGS_AFTER)).expect("a socket");
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        if let Err(error) = stream.read_to_string(&mut answer) {
            assert!(error.kind() != std::io::ErrorKind::WouldBlock, "the node never answers {method} {path}");
            return None;
        }
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    fn client(&self, instance: &str) -> Client {
        let target = NamespaceTarget {
            instance: InstanceId::unchecked(instance),
            namespace: 0,
            credential: Key::from_hex(KEY).map(Credential::member),
            layout: Layout::striped(1),
            home: FragmentIndex(0),
            nodes: vec![self.health().unwrap().data],
            grace_ms: 10_000,
        };
        Client::connect(&target).unwrap()
    }

    /// Writes into a fragment what [`Site::check`] finds again.
    pub fn fill(&self, instance: &str) {
        let client = self.client(instance);
        for n in 0..FILES {
            let ino = client.create(New, ROOT, &[b'a' + n], 0o644, &ME).unwrap().ino;
            client.write(ino, 0, &[n; 5000]).unwrap();
            client.fsync(ino).unwrap();
            client.close(ino, true).unwrap();
        }
    }

    /// Whether everything that was written into a fragment is there.
    pub fn check(&self, instance: &str, context: &dyn std::fmt::Debug) {
        let outcome = self.compare(instance, context);
        outcome.unwrap_or_else(|errno| panic!("{context:?}: {instance} cannot be read: {errno}"));
    }

    /// Compares what is read with what was written. An error is no wrong answer.
    pub fn compare(&self, instance: &str, context: &dyn std::fmt::Debug) -> Result<(), Errno> {
        let client = self.client(instance);
        for n in 0..FILES {
            let ino = client.lookup(ROOT, &[b'a' + n])?.ino;
            let mut back = vec![0xff; 6000];
            let length = client.read(ino, 0, &mut back)?;
            assert_eq!(back[..length], [n; 5000], "{context:?}: {instance} has lost bytes");
        }
        Ok(())
    }

    /// The names in the fragments' folder, without what is being removed in the background.
    pub fn names(&self) -> Vec<String> {
        let read = || -> Vec<String> {
            let entries = fs::read_dir(self.fragments()).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        };
        wait_until(Duration::from_secs(20), || !read().iter().any(|name| name.starts_with('.')));
        let mut names = read();
        names.sort();
        names
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(mut node) = self.node.take() {
            // A tracer that is killed leaves its process alone.
            let health = self.health();
            let _gone = node.kill();
            let _ = node.wait();
            let pid = health.and_then(|health| rustix::process::Pid::from_raw(health.pid.cast_signed()));
            let _gone = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
        }
        for point in mounts_of(self.root.path()) {
            let _ = Command::new("umount").arg("--lazy").arg(point).status();
        }
    }
}

pub fn spec(instance: &str, volume: VolumeKind, health: NodeHealth) -> FragmentSpec {
    let namespace = NamespaceSpec {
        id: 0,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        owner: Owner { uid: 0, gid: 0 },
        mode: 0o700,
    };
    FragmentSpec {
        instance: InstanceId::unchecked(instance),
        index: FragmentIndex(0),
        capacity_bytes: 16 << 20,
        volume,
        key: KEY.into(),
        peers: vec![health.data],
        namespaces: vec![namespace],
        missing: wire::node::Missing::Made,
        ..FragmentSpec::default()
    }
}

/// Longer than any call of a node takes.
const HANGS_AFTER: Duration = Duration::from_secs(120);

/// Whether the words of a refusal name a file of the node, or what the kernel has of its program, and say why.
pub fn is_named(words: &str, folder: &Path) -> bool {
    let why = ["os error", "EIO", "Input/output error", "cannot", "damaged", "not found"];
    // A call is counted in each thread by itself: that of a late thread may be one of the loader's, which names its
    // file.
    let loader = words.contains("error while loading shared libraries: ");
    let names = loader || words.contains(&*folder.to_string_lossy()) || words.contains("/proc/self/");
    names && why.iter().any(|why| words.contains(why))
}
