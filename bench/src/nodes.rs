//! Storage nodes in this process, which speak over TCP, with one instance in memory, for clients of this process.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;

use anyhow::{Context, Result};
use client::Client;
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use store::Server;
use tempfile::TempDir;
use wire::control::Owner;
use wire::data::Credential;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, GRACE_MS, Missing, NamespaceSpec, NamespaceTarget, StorageAddress};

use crate::work::creates::CREATOR;

/// They end with it.
pub struct Nodes {
    servers: Vec<Arc<Server>>,
    target: NamespaceTarget,
    key: Key,
    _folder: TempDir,
}

impl Nodes {
    /// Starts `count` of them; `key` is that of the instance in digits, which holds `capacity_bytes` on each.
    pub fn start(count: u32, key: &str, capacity_bytes: u64) -> Result<Nodes> {
        let folder = tempfile::Builder::new().prefix("forebay-bench-").tempdir_in("/dev/shm")?;
        let (mut servers, mut nodes) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (node, root) =
                (NodeName::unchecked(format!("n{number}")), folder.path().join(number.to_string()));
            let server = Server::open(root.join("fragments"), node.clone())?;
            let tcp = TcpListener::bind("127.0.0.1:0")?;
            nodes.push(StorageAddress { node, tcp: tcp.local_addr()?.to_string(), unix: None });
            server.listen(tcp, UnixListener::bind(root.join("data.sock"))?)?;
            servers.push(server);
        }
        let (instance, layout) = (InstanceId::literal("i1"), Layout::striped(count));
        let owner = Owner { uid: CREATOR.uid, gid: CREATOR.gid };
        let namespace = NamespaceSpec { id: 0, layout, home: FragmentIndex(0), owner, mode: 0o755 };
        for (index, server) in FragmentIndex::of_each(&servers) {
            server.create_fragment(&FragmentSpec {
                instance: instance.clone(),
                index,
                capacity_bytes,
                key: key.to_owned(),
                peers: nodes.clone(),
                namespaces: vec![namespace.clone()],
                missing: Missing::Made,
                ..FragmentSpec::default()
            })?;
        }
        let (key, home) = (Key::from_hex(key).context("a key has 64 digits")?, FragmentIndex(0));
        let credential = None;
        let target =
            NamespaceTarget { instance, namespace: 0, credential, layout, home, nodes, grace_ms: GRACE_MS };
        Ok(Nodes { servers, target, key, _folder: folder })
    }

    /// A client with the credential that is made of the instance's key.
    pub fn connect(&self, credential: impl FnOnce(Key) -> Credential) -> Result<Client> {
        let credential = Some(credential(self.key.clone()));
        Ok(Client::connect(&NamespaceTarget { credential, ..self.target.clone() })?)
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.servers.iter().for_each(|server| server.shutdown());
    }
}
