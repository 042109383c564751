//! Real storage nodes in this process, with one instance.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use model::stripe::Layout;
use store::Server;
use wire::control::{Owner, VolumeKind};
use wire::node::{FragmentSpec, NamespaceSpec, NamespaceTarget, StorageAddress};

const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

pub struct Cluster {
    servers: Vec<Arc<Server>>,
    pub target: NamespaceTarget,
}

impl Cluster {
    /// Starts `count` nodes below `folder` with an instance of `capacity_bytes` on each.
    pub fn start(folder: &Path, count: u32, capacity_bytes: u64, owner: &Owner) -> Cluster {
        let layout = Layout::striped(count);
        let (mut servers, mut nodes) = (Vec::new(), Vec::new());
        for index in 0..count {
            let (node, root) = (format!("n{index}"), folder.join(format!("n{index}")));
            let server = Server::open(root.join("fragments"), node.clone()).unwrap();
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            let unix = root.join("data.sock");
            nodes.push(StorageAddress {
                node,
                tcp: tcp.local_addr().unwrap().to_string(),
                unix: Some(unix.clone()),
            });
            server.listen(tcp, UnixListener::bind(unix).unwrap()).unwrap();
            servers.push(server);
        }
        let namespace = NamespaceSpec { id: 0, layout, home: 0, owner: owner.clone(), mode: 0o700 };
        for (index, server) in (0..).zip(&servers) {
            let spec = FragmentSpec {
                instance: "i1".into(),
                index,
                capacity_bytes,
                volume: VolumeKind::Directory,
                key: KEY.into(),
                peers: nodes.clone(),
                namespaces: vec![namespace.clone()],
                grace_ms: wire::node::GRACE_MS,
            };
            server.create_fragment(&spec).unwrap();
        }
        let target = NamespaceTarget {
            instance: "i1".into(),
            namespace: 0,
            key: KEY.into(),
            layout,
            home: 0,
            nodes,
            grace_ms: 2000,
        };
        Cluster { servers, target }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.servers.iter().for_each(|server| server.shutdown());
    }
}
