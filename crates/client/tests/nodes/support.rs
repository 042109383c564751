//! Storage nodes in this process, on loopback sockets, with folders that are thrown away.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{Client, Creator};
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use store::Server;
use wire::control::{Owner, VolumeKind};
use wire::data::Credential;
use wire::data::hello::{ENCRYPTED, Key};
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, StorageAddress};

/// Whose files are made.
pub const ME: Creator = Creator { uid: 1000, gid: 100, umask: 0 };
/// The instance's key.
pub const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// What a storage node has.
pub fn member() -> Credential {
    Credential::member(Key::from_hex(KEY).unwrap())
}

/// A key of these digits whose connections are encrypted.
pub fn encrypted() -> String {
    format!("{ENCRYPTED}{KEY}")
}

/// One namespace on some nodes.
pub struct Cluster {
    _folder: tempfile::TempDir,
    roots: Vec<PathBuf>,
    pub servers: Vec<Arc<Server>>,
    pub target: NamespaceTarget,
    key: String,
}

impl Cluster {
    /// Starts them, with stripes of 64 KiB.
    pub fn start(fragments: u32, capacity_each: u64) -> Cluster {
        Cluster::start_on(VolumeKind::Directory, fragments, capacity_each)
    }

    /// The same, on volumes of this kind.
    pub fn start_on(volume: VolumeKind, fragments: u32, capacity_each: u64) -> Cluster {
        Cluster::start_as(volume, fragments, capacity_each, (false, wire::node::GRACE_MS))
    }

    /// The same as the first with this key, where clients and nodes reach each node by what `way` makes of its address,
    /// over TCP alone; mirrored or not.
    pub fn start_by(key: &str, mirrored: bool, way: impl Fn(&str) -> String) -> Cluster {
        let mut cluster = Cluster::open(2, key);
        for node in &mut cluster.target.nodes {
            (node.tcp, node.unix) = (way(&node.tcp), None);
        }
        cluster.make(VolumeKind::Directory, 64 << 20, (mirrored, wire::node::GRACE_MS));
        cluster
    }

    /// In folders, with nodes that wait for lost sessions so long, ms.
    pub fn start_with_grace(fragments: u32, grace_ms: u64) -> Cluster {
        Cluster::start_as(VolumeKind::Directory, fragments, 1 << 20, (false, grace_ms))
    }

    /// The same, with each fragment's objects on the next node as well.
    pub fn start_mirrored(volume: VolumeKind, fragments: u32, capacity_each: u64) -> Cluster {
        Cluster::start_as(volume, fragments, capacity_each, (true, wire::node::GRACE_MS))
    }

    fn start_as(volume: VolumeKind, fragments: u32, capacity_each: u64, how: (bool, u64)) -> Cluster {
        let mut cluster = Cluster::open(fragments, KEY);
        cluster.make(volume, capacity_each, how);
        cluster
    }

    /// Starts the nodes.
    fn open(fragments: u32, key: &str) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let roots: Vec<PathBuf> = (0..fragments).map(|n| folder.path().join(format!("n{n}"))).collect();
        let layout = Layout { stripe_size_bytes: 65536, ..Layout::striped(fragments) };
        let mut cluster = Cluster {
            _folder: folder,
            servers: Vec::new(),
            target: NamespaceTarget {
                instance: InstanceId::literal("i1"),
                namespace: 0,
                credential: Key::from_hex(key).map(Credential::member),
                layout,
                home: FragmentIndex(0),
                nodes: Vec::new(),
                grace_ms: 10_000,
            },
            roots,
            key: key.to_owned(),
        };
        for n in 0..fragments as usize {
            let server = cluster.serve(n, "127.0.0.1:0");
            cluster.servers.push(server);
        }
        cluster
    }

    /// Makes the fragments.
    fn make(&mut self, volume: VolumeKind, capacity_bytes: u64, (mirrored, grace_ms): (bool, u64)) {
        for (index, server) in self.servers.iter().enumerate() {
            let mut spec = FragmentSpec { capacity_bytes, volume, grace_ms, ..self.spec(index) };
            spec.behaviour.mirrored = mirrored;
            server.create_fragment(&spec).unwrap();
        }
    }

    /// What node `n` is asked to have, in a folder, of the least size.
    pub fn spec(&self, n: usize) -> FragmentSpec {
        let namespace = NamespaceSpec {
            id: 0,
            layout: self.target.layout,
            home: FragmentIndex(0),
            owner: Owner { uid: ME.uid, gid: ME.gid },
            mode: 0o700,
        };
        FragmentSpec {
            instance: self.target.instance.clone(),
            index: FragmentIndex(u32::try_from(n).unwrap()),
            capacity_bytes: 1 << 20,
            volume: VolumeKind::Directory,
            key: self.key.clone(),
            peers: self.target.nodes.clone(),
            namespaces: vec![namespace],
            missing: wire::node::Missing::Made,
            ..FragmentSpec::default()
        }
    }

    /// Opens node `n`'s folder and listens; appends or replaces its address.
    pub fn serve(&mut self, n: usize, tcp: &str) -> Arc<Server> {
        let server =
            Server::open(self.roots[n].join("fragments"), NodeName::unchecked(format!("n{n}"))).unwrap();
        let tcp = bind(tcp);
        let socket = self.roots[n].join("data.sock");
        let _absent = std::fs::remove_file(&socket);
        let address = StorageAddress {
            node: NodeName::unchecked(format!("n{n}")),
            tcp: tcp.local_addr().unwrap().to_string(),
            unix: Some(socket.clone()),
        };
        server.listen(tcp, UnixListener::bind(&socket).unwrap()).unwrap();
        if n < self.target.nodes.len() {
            self.target.nodes[n] = address;
        } else {
            self.target.nodes.push(address);
        }
        server
    }

    /// Node `n` loses its power and comes back; on its disk is all that it was written.
    pub fn lose_power(&mut self, n: usize) {
        self.lose_power_and(n, |_| ());
    }

    /// The same, where `lose` does to its part of the instance what the power loss has done.
    pub fn lose_power_and(&mut self, n: usize, lose: impl FnOnce(&Path)) {
        self.servers[n].shutdown();
        lose(&self.fragment(n));
        std::fs::remove_file(self.roots[n].join("fragments/i1/verifier.json")).unwrap();
        let tcp = self.target.nodes[n].tcp.clone();
        self.servers[n] = self.serve(n, &tcp);
    }

    /// Node `n` is lost with all that it had; another takes its place, with what `spec` says, and waits for the rest.
    pub fn replace(&mut self, n: usize, spec: &FragmentSpec) {
        self.servers[n].shutdown();
        std::fs::remove_dir_all(self.roots[n].join("fragments")).unwrap();
        let tcp = self.target.nodes[n].tcp.clone();
        self.servers[n] = self.serve(n, &tcp);
        let spec = FragmentSpec { missing: wire::node::Missing::Restored, ..spec.clone() };
        self.servers[n].create_fragment(&spec).unwrap();
    }

    /// Node `n` is given up with all that it had, which is kept where this says; another takes its place elsewhere,
    /// where its clients find it by its address.
    pub fn give_up(&mut self, n: usize, spec: &FragmentSpec) -> PathBuf {
        self.servers[n].shutdown();
        let successor = self.roots[n].with_extension("successor");
        std::fs::create_dir(&successor).unwrap();
        let given_up = std::mem::replace(&mut self.roots[n], successor);
        let tcp = self.target.nodes[n].tcp.clone();
        self.servers[n] = self.serve(n, &tcp);
        let spec =
            FragmentSpec { missing: wire::node::Missing::Restored, term: spec.term + 1, ..spec.clone() };
        self.servers[n].create_fragment(&spec).unwrap();
        given_up
    }

    /// The unix socket of node `n`.
    pub fn socket(&self, n: usize) -> PathBuf {
        self.roots[n].join("data.sock")
    }

    /// What node `n` has of the instance.
    pub fn fragment(&self, n: usize) -> PathBuf {
        self.roots[n].join("fragments/i1")
    }

    /// One more client.
    pub fn client(&self) -> Client {
        Client::connect(&self.target).unwrap()
    }
}

/// Volumes are mounted: what would be left behind is ended.
impl Drop for Cluster {
    fn drop(&mut self) {
        for server in &self.servers {
            for fragment in server.fragments() {
                let _gone_or_in_use = server.delete_fragment(&fragment.instance);
            }
        }
    }
}

/// Bytes that differ from seed to seed.
pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| u8::try_from((i * 31 + i / 251 + seed) % 251).unwrap()).collect()
}

/// Runs a test with one and with three storage nodes.
pub fn everywhere(test: impl Fn(&Cluster, &Client)) {
    for fragments in [1, 3] {
        let cluster = Cluster::start(fragments, 64 << 20);
        test(&cluster, &cluster.client());
    }
}

/// The former life's thread needs a moment to let go of the port.
pub fn bind(address: &str) -> TcpListener {
    let give_up = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        match TcpListener::bind(address) {
            Ok(listener) => return listener,
            Err(error) if std::time::Instant::now() > give_up => panic!("cannot bind {address}: {error}"),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
        }
    }
}
