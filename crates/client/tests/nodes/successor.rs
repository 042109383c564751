//! A node that was given up comes back with all that it had, while another serves its part of the buffer: it changes
//! nothing of what belongs to its successor, and answers nobody.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::{FragmentIndex, Ino, InstanceId, NodeName, SessionId};
use store::Server;
use wire::control::VolumeKind;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, HelloError, Refusal};
use wire::node::{FragmentSpec, FragmentStatus, StorageAddress};

use crate::restored::wait_until;
use crate::support::{Cluster, ME, member, pattern};

/// Over all nodes.
const BYTES: usize = 500_000;

fn is_whole(status: &FragmentStatus) -> bool {
    status.mirrors.iter().all(|mirror| mirror.whole) && status.copies.iter().all(|copy| copy.whole)
}

fn await_whole(cluster: &Cluster) {
    let all = || cluster.servers.iter().flat_map(|server| server.fragments()).collect::<Vec<_>>();
    wait_until("all mirrors and copies are whole", || {
        all().iter().all(|status| !status.starting && is_whole(status))
    });
}

fn status_of(server: &Server) -> FragmentStatus {
    server.fragments().pop().unwrap()
}

/// The node that was given up is started again, at another address, with what it had at `root`.
fn come_back(root: &Path) -> (Arc<Server>, StorageAddress) {
    let server = Server::open(root.join("fragments"), NodeName::literal("given-up")).unwrap();
    let (tcp, socket) = (TcpListener::bind("127.0.0.1:0").unwrap(), root.join("again.sock"));
    let tcp_address = tcp.local_addr().unwrap().to_string();
    server.listen(tcp, UnixListener::bind(&socket).unwrap()).unwrap();
    (server, StorageAddress { node: NodeName::literal("given-up"), tcp: tcp_address, unix: None })
}

/// The bytes of a file, or of none.
fn bytes(path: &Path) -> Vec<u8> {
    match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        bytes => bytes.unwrap(),
    }
}

/// Node `n`'s object of a file, and what the next node has of it.
fn both(cluster: &Cluster, n: usize, ino: Ino) -> [PathBuf; 2] {
    let (object, next) =
        (format!("0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]), (n + 1) % cluster.servers.len());
    let (own, mirror) = (cluster.fragment(n).join("objects"), cluster.fragment(next).join("mirror"));
    [own.join(&object), mirror.join(&object)]
}

fn write(client: &Client, ino: Ino, seed: usize) {
    client.write(ino, 0, &pattern(BYTES, seed)).unwrap();
    client.fsync(ino).unwrap();
}

/// Asks for fragment `n` at `address`, as a client does that knows no better.
fn ask(address: &StorageAddress, n: usize) -> Result<(), HelloError> {
    let fragment = FragmentIndex(u32::try_from(n).unwrap());
    let claim =
        Claim { instance: InstanceId::literal("i1"), namespace: 0, fragment, session: SessionId([7; 16]) };
    dial(address, Via::Tcp, &member(), &claim).map(drop)
}

/// The first fragment's log, and the copy of it.
fn logs(cluster: &Cluster) -> [Vec<u8>; 2] {
    [(0, "namespaces"), (1, "copies")]
        .map(|(n, folder)| bytes(&cluster.fragment(n).join(folder).join("0/meta.log")))
}

/// All that belongs to the successors is as they have it.
fn assert_untouched(cluster: &Cluster, ino: Ino, what: &str) {
    for part in 0..3 {
        let [own, mirror] = both(cluster, part, ino).map(|object| bytes(&object));
        assert!(own == mirror && !own.is_empty(), "{what}: the mirror of part {part} is its successor's");
    }
    let [own, copy] = logs(cluster);
    assert!(copy == own, "{what}: the copy is of its successor's log");
}

/// A buffer of which node `n` was given up, with a file that was changed since, and where the node has what it had. Its
/// client is still there: as it goes the log gets longer.
fn given_up(n: usize) -> (Cluster, Client, Ino, PathBuf) {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
    let client = cluster.client();
    let ino = client.create(New, ROOT, b"file", 0o644, &ME).unwrap().ino;
    write(&client, ino, 1);
    client.sync_metadata().unwrap();
    await_whole(&cluster);
    let mut spec = FragmentSpec { capacity_bytes: 64 << 20, ..cluster.spec(n) };
    spec.behaviour.mirrored = true;
    let root = cluster.give_up(n, &spec);
    await_whole(&cluster);
    write(&client, ino, 2);
    client.create(New, ROOT, b"of-the-successor", 0o644, &ME).unwrap();
    client.sync_metadata().unwrap();
    // What nobody waits for is in the copy some milliseconds later.
    wait_until("the log is copied", || logs(&cluster)[0] == logs(&cluster)[1]);
    (cluster, client, ino, root)
}

/// Node `n` is given up, and comes back after its successor has changed what it had.
fn comes_back(n: usize) {
    let (cluster, client, ino, root) = given_up(n);
    let (back, address) = come_back(&root);
    // It has found its mirror, or was told why not.
    wait_until("settled", || {
        let status = status_of(&back);
        status.error.is_some() || !status.starting && is_whole(&status)
    });
    assert_untouched(&cluster, ino, &format!("node {n} is back"));
    drop(client);
    let FragmentStatus { error: why, advice, .. } = status_of(&back);
    assert!(why.iter().any(|why| why.contains("taken its place")), "node {n} is back and says: {why:?}");
    let step = advice.unwrap_or_default();
    assert!(step.contains("`forebay node lost given-up`"), "no step that can succeed is named: {step:?}");
    let refused = ask(&address, n);
    assert!(matches!(refused, Err(HelloError::Refused(Refusal::Moved))), "node {n} is back: {refused:?}");

    // Nobody notices anything, and it stays so when the nodes that know it are away.
    write(&cluster.client(), ino, 3);
    await_whole(&cluster);
    back.shutdown();
    cluster.servers[(n + 1) % 3].shutdown();
    fs::remove_file(root.join("again.sock")).unwrap();
    let (back, address) = come_back(&root);
    assert!(ask(&address, n).is_err(), "node {n} is back again, and its mirror's node is away");
    assert!(status_of(&back).error.is_some_and(|why| why.contains("taken its place")));
    back.shutdown();
}

#[test]
fn a_node_that_was_given_up_and_comes_back_changes_nothing_and_answers_nobody() {
    // The first has the names itself, the second has them elsewhere.
    for n in [1, 0] {
        comes_back(n);
    }
}
