//! Neither strangers nor the clients of one buffer keep anybody else out.

use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use model::stripe::Layout;
use model::{FragmentIndex, NodeName};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wire::control::{Owner, VolumeKind};
use wire::data::credential::{Capability, Identity, User};
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError, Key, Refusal};
use wire::data::{Connection, Credential, Reply, Request};
use wire::node::{FragmentSpec, NamespaceSpec, StorageAddress};

use super::super::Server;
use super::*;

const A: &str = "a";
const B: &str = "b";

/// A node with parts of two buffers.
struct Node {
    _folder: tempfile::TempDir,
    server: Arc<Server>,
    address: StorageAddress,
}

impl Node {
    fn start() -> Node {
        let most = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = Server::open(folder.path().join("f"), NodeName::literal("n0")).unwrap();
        for name in [A, B] {
            server.create_fragment(&spec(name)).unwrap();
        }
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        server.listen(tcp, UnixListener::bind(folder.path().join("s")).unwrap()).unwrap();
        let address = StorageAddress { node: NodeName::literal("n0"), tcp: address, unix: None };
        Node { _folder: folder, server, address }
    }

    /// A connection of a buffer's client.
    fn dial(
        &self,
        instance: &'static str,
        identity: Identity,
        session: u16,
    ) -> Result<Connection, HelloError> {
        let key = Key::from_hex(&spec(instance).key).unwrap();
        let credential = Credential::derive(&key, Capability { identity, namespace: 0, expires_s: None });
        let mut id = [9; 16];
        id[..2].copy_from_slice(&session.to_le_bytes());
        let (instance, session) = (InstanceId::literal(instance), SessionId(id));
        let claim = Claim { instance, namespace: 0, fragment: FragmentIndex(0), session };
        dial(&self.address, Via::Tcp, &credential, &claim).map(|(connection, _)| connection)
    }

    fn places(&self, of: impl Fn(&One) -> bool) -> usize {
        self.server.places.held().all.values().filter(|one| of(one)).count()
    }
}

fn spec(name: &'static str) -> FragmentSpec {
    let namespace = NamespaceSpec {
        id: 0,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        owner: Owner { uid: 0, gid: 0 },
        mode: 0o700,
    };
    FragmentSpec {
        instance: InstanceId::literal(name),
        index: FragmentIndex(0),
        capacity_bytes: 1 << 20,
        volume: VolumeKind::Directory,
        key: "ab".repeat(32),
        namespaces: vec![namespace],
        missing: wire::node::Missing::Made,
        ..FragmentSpec::default()
    }
}

/// Whether it is still served.
fn works(connection: &mut Connection) -> bool {
    connection.send(1, &Request::Ping, &[]).is_ok()
        && connection.receive::<Reply>().is_ok_and(|frame| frame.message == Reply::Done)
}

fn user(uid: u32) -> Identity {
    Identity::User(User { uid, groups: Vec::new() })
}

#[test]
fn strangers_take_no_place_of_who_proves_something() {
    let node = Node::start();
    let mut client = node.dial(A, Identity::Kernel, 0).unwrap();
    let crowd: Vec<_> = (0..1500).map(|_| TcpStream::connect(&node.address.tcp).unwrap()).collect();
    let begun = Instant::now();
    let mut another = node.dial(B, Identity::Kernel, 0).expect("there is a place for it");
    // A stranger may take five, and there are 1,500.
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    assert!(works(&mut client) && works(&mut another));
    assert_eq!(crowd.len(), 1500);
}

#[test]
fn who_comes_from_elsewhere_is_kept_beside_a_crowd() {
    let shares = Shares { limit: 0, objects: 0, connections: 8, strangers: 4 };
    let places = Places::new(&shares);
    let elsewhere = TcpListener::bind("127.0.0.2:0").unwrap();
    let peer = TcpStream::connect(elsewhere.local_addr().unwrap()).unwrap();
    let (_pair, ours) = UnixStream::pair().unwrap();
    let rare = places.stranger(&Stream::Tcp(peer)).unwrap();
    let crowd: Vec<_> =
        (0..9).map(|_| places.stranger(&Stream::Unix(ours.try_clone().unwrap())).unwrap()).collect();
    let strangers = places.strangers.lock().unwrap().count();
    assert_eq!(strangers, 4);
    drop(crowd);
    assert_eq!(places.strangers.lock().unwrap().count(), 1, "that from elsewhere");
    drop(rare);
    assert_eq!(places.strangers.lock().unwrap().count(), 0);
}

#[test]
fn one_buffer_s_clients_make_room_for_those_of_others_and_one_user_s_for_other_users() {
    let node = Node::start();
    let max = node.server.places.max;
    let kept = node.dial(A, Identity::Kernel, 0).unwrap();
    let mut held: Vec<_> = (1..max).map(|_| node.dial(A, user(1), 1).unwrap()).collect();
    // A stage of the user who has most is refused, and told why.
    let refused = node.dial(A, user(1), 2).map(drop);
    assert!(matches!(refused, Err(HelloError::Refused(Refusal::Busy))), "{refused:?}");
    assert!(!refused.unwrap_err().is_final(), "it is tried again");
    let others: Vec<_> = (0..max).map(|_| node.dial(B, user(2), 3)).collect();
    let got = others.iter().filter(|other| other.is_ok()).count();
    assert_eq!(got, max / 2, "half is for others");
    assert_eq!(node.places(|one| one.instance == InstanceId::literal(A)), max - max / 2);
    assert_eq!(node.places(|one| matches!(one.whose, Whose::Session(_))), 1, "nobody loses his only one");
    assert!(node.dial(A, user(3), 4).is_ok_and(|mut third| works(&mut third)), "of the same buffer");
    assert!(node.dial(A, Identity::Kernel, 5).is_ok_and(|mut mount| works(&mut mount)));
    assert!(works(&mut { kept }));
    let alive = held.iter_mut().map(works).filter(|works| *works).count();
    assert!((max / 2 - 4..=max / 2).contains(&alive), "{alive} are left");
}

#[test]
fn a_connection_on_which_something_is_asked_is_ended_last_and_that_of_a_node_never() {
    let shares = Shares { limit: 0, objects: 0, connections: 6, strangers: 1 };
    let places = Places::new(&shares);
    let (a, b) = (InstanceId::literal(A), InstanceId::literal(B));
    let (_pair, stream) = UnixStream::pair().unwrap();
    let stream = Arc::new(Stream::Unix(stream));
    let nodes: Vec<_> = (0..2).map(|_| places.place(&a, Whose::Nodes, &stream).unwrap()).collect();
    let users: Vec<_> = (0..4).map(|_| places.place(&a, Whose::User(1), &stream).unwrap()).collect();
    users[..2].iter().for_each(Place::is_asked);
    users[0].is_lent();
    let there = |place: &Place| places.held().all.contains_key(&place.number);
    let others = [(); 4].map(|()| places.place(&b, Whose::User(2), &stream));
    assert_eq!(others.iter().filter(|other| other.is_some()).count(), 3);
    assert_eq!(users.iter().map(there).collect::<Vec<_>>(), [true, false, false, false]);
    assert!(nodes.iter().all(there));
}
