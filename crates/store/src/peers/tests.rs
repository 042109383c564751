//! Another fragment that is asked, on a real node.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use model::stripe::Layout;
use model::{InstanceId, NodeName};
use wire::control::{Owner, VolumeKind};
use wire::data::hello::Key;
use wire::node::{Missing, NamespaceSpec};

use super::*;
use crate::server::Server;

#[test]
fn a_change_does_not_wait_for_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = |node: &str, tcp: String| StorageAddress { node: NodeName::unchecked(node), tcp, unix: None };
    let peers = vec![peer("n0", "127.0.0.1:1".into()), peer("n1", tcp.local_addr().unwrap().to_string())];
    let (layout, owner) = (Layout::striped(2), Owner { uid: 7, gid: 8 });
    let spec = FragmentSpec {
        instance: InstanceId::literal("i1"),
        index: 1.into(),
        capacity_bytes: 1 << 20,
        volume: VolumeKind::Directory,
        key: "ab".repeat(32),
        peers,
        namespaces: vec![NamespaceSpec { id: 0, layout, home: 0.into(), owner, mode: 0o700 }],
        grace_ms: 1000,
        missing: Missing::Made,
        ..FragmentSpec::default()
    };
    let server = Server::open(folder.path().join("n1"), NodeName::literal("n1")).unwrap();
    server.listen(tcp, UnixListener::bind(folder.path().join("n1.sock")).unwrap()).unwrap();
    server.create_fragment(&spec).unwrap();
    let terms = Terms::open(folder.path(), 0.into(), 0).unwrap();
    let home = FragmentSpec { index: 0.into(), ..spec };
    let peers = Peers::new(&home, 0, Key::from_hex(&home.key).unwrap(), &terms);
    assert_eq!(peers.objects(1.into(), Ino(0)), Ok(Vec::new()));
    // As while the other node searches its disk.
    let under_way = peers.nodes[1].listing.lock().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| peers.resize(1.into(), Ino(7), 10)).join().unwrap().unwrap();
    });
    drop(under_way);
    assert_eq!(
        peers.objects(1.into(), Ino(0)),
        Ok(vec![(Ino(7), 10)]),
        "the change ended the list's connection"
    );
    server.shutdown();
}
