//! Real storage nodes in this process, with one instance.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use store::Server;
use wire::control::{Owner, VolumeKind};
use wire::data::Credential;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, StagePace, StorageAddress};
use wire::ticket;

/// The instance's key.
pub const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What proves that control gave a stage.
pub const STAGE_KEY: &str = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

pub struct Cluster {
    servers: Vec<Arc<Server>>,
    pub target: NamespaceTarget,
    pub movers: Arc<Movers>,
}

/// The movers that nodes were asked to run.
#[derive(Default)]
pub struct Movers {
    /// Nodes whose movers see an empty folder in place of this one.
    pub blind: Mutex<Option<(u32, PathBuf)>>,
    /// The process of each node's last one.
    pub running: Mutex<BTreeMap<u32, u32>>,
    /// A node that does not copy with root's rights.
    pub not_as_root: Mutex<Option<u32>>,
    /// What a node tells its movers about their pace.
    pub pace: Mutex<Option<(u32, StagePace)>>,
}

impl Movers {
    fn run(&self, node: u32, socket: OwnedFd, fragment: &Path, namespace: u32) -> std::io::Result<()> {
        let program = env!("CARGO_BIN_EXE_forebay-stage");
        let blind = self.blind.lock().unwrap().clone().filter(|(blind, _)| *blind == node);
        let mut command = match blind {
            None => Command::new(program),
            Some((_, folder)) => {
                let mut command = Command::new("unshare");
                let script = format!("mount -t tmpfs none {} && exec \"$@\"", folder.display());
                command.args(["--mount", "--", "sh", "-c", &script, "mover", program]);
                command
            }
        };
        command.arg("--fragment").arg(fragment).arg("--namespace").arg(namespace.to_string());
        if *self.not_as_root.lock().unwrap() != Some(node) {
            command.arg("--as-root");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(socket).spawn()?;
        if let Some((_, pace)) = self.pace.lock().unwrap().filter(|(paced, _)| *paced == node) {
            writeln!(child.stdin.as_ref().unwrap(), "{}", serde_json::to_string(&pace).unwrap())?;
        }
        self.running.lock().unwrap().insert(node, child.id());
        child.wait().map(drop)
    }
}

impl Cluster {
    /// Starts `count` nodes below `folder` with an instance of `capacity_bytes` on each.
    pub fn start(folder: &Path, count: u32, capacity_bytes: u64, owner: &Owner) -> Cluster {
        Cluster::start_on((KEY, VolumeKind::Directory), folder, count, capacity_bytes, owner)
    }

    /// The same, on volumes of this kind, with this key.
    pub fn start_on(
        (key, volume): (&str, VolumeKind),
        folder: &Path,
        count: u32,
        capacity_bytes: u64,
        owner: &Owner,
    ) -> Cluster {
        let layout = Layout::striped(count);
        let (mut servers, mut nodes, programs) = (Vec::new(), Vec::new(), Arc::<Movers>::default());
        for index in 0..count {
            let (node, root) = (NodeName::unchecked(format!("n{index}")), folder.join(format!("n{index}")));
            let server = Server::open(root.join("fragments"), node.clone()).unwrap();
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let unix = root.join("data.sock");
            let address = tcp.local_addr().unwrap().to_string();
            nodes.push(StorageAddress { node, tcp: address, unix: Some(unix.clone()) });
            let programs = programs.clone();
            server.run_movers_with(Box::new(move |socket, fragment, namespace| {
                programs.run(index, socket, fragment, namespace)
            }));
            server.listen(tcp, UnixListener::bind(unix).unwrap()).unwrap();
            servers.push(server);
        }
        let namespace = NamespaceSpec { id: 0, layout, home: 0.into(), owner: owner.clone(), mode: 0o700 };
        for (index, server) in FragmentIndex::of_each(&servers) {
            let spec = FragmentSpec {
                instance: InstanceId::literal("i1"),
                index,
                capacity_bytes,
                volume,
                key: key.into(),
                stage_verifier: ticket::verifier(&Key::from_hex(STAGE_KEY).unwrap()),
                peers: nodes.clone(),
                namespaces: vec![namespace.clone()],
                missing: wire::node::Missing::Made,
                ..FragmentSpec::default()
            };
            server.create_fragment(&spec).unwrap();
        }
        let target = NamespaceTarget {
            instance: InstanceId::literal("i1"),
            namespace: 0,
            credential: Key::from_hex(key).map(Credential::member),
            layout,
            home: 0.into(),
            nodes,
            grace_ms: 2000,
        };
        Cluster { servers, target, movers: programs }
    }

    /// Node `n`, below `folder`, loses its power and comes back, without the bytes of any object.
    pub fn lose_power(&mut self, folder: &Path, n: usize) {
        let root = folder.join(format!("n{n}"));
        self.servers[n].shutdown();
        let fragment = root.join("fragments/i1");
        for folder in std::fs::read_dir(fragment.join("objects/0")).unwrap() {
            for object in std::fs::read_dir(folder.unwrap().path()).unwrap() {
                let object = std::fs::File::options().write(true).open(object.unwrap().path()).unwrap();
                let size = object.metadata().unwrap().len();
                object.set_len(0).and_then(|()| object.set_len(size)).unwrap();
            }
        }
        std::fs::remove_file(fragment.join("verifier.json")).unwrap();
        let server = Server::open(root.join("fragments"), NodeName::unchecked(format!("n{n}"))).unwrap();
        let tcp = bind(&self.target.nodes[n].tcp);
        std::fs::remove_file(root.join("data.sock")).unwrap();
        server.listen(tcp, UnixListener::bind(root.join("data.sock")).unwrap()).unwrap();
        self.servers[n] = server;
    }
}

/// The former life's thread needs a moment to let go of the port.
fn bind(address: &str) -> TcpListener {
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) if Instant::now() > give_up => panic!("cannot bind {address}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Volumes may be mounted: what would be left behind is ended.
impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &self.servers {
            for fragment in server.fragments() {
                let _gone_or_in_use = server.delete_fragment(&fragment.instance);
            }
            server.shutdown();
        }
    }
}
