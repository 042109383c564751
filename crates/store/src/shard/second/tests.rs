//! The copy of a log that is replaced, on a real node beside.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName, SessionId};
use wire::control::{Owner, VolumeKind};
use wire::data::{Creator, ROOT, Reply, Request};
use wire::node::{FragmentSpec, NamespaceSpec, StorageAddress};

use super::*;
use crate::server::Server;
use crate::shard::{Caller, names};

const CREATOR: Creator = Creator { uid: 7, gid: 8, umask: 0 };

fn root(folder: &Path, n: u32) -> PathBuf {
    folder.join(format!("n{n}"))
}

/// Opens node `n`, and listens at `address`; gives the address.
fn serve(folder: &Path, n: u32, address: &str) -> (Arc<Server>, String) {
    let server = Server::open(root(folder, n), NodeName::unchecked(format!("n{n}"))).unwrap();
    let tcp = TcpListener::bind(address).unwrap();
    let address = tcp.local_addr().unwrap().to_string();
    let socket = folder.join(format!("n{n}.sock"));
    let _absent = std::fs::remove_file(&socket);
    server.listen(tcp, UnixListener::bind(socket).unwrap()).unwrap();
    (server, address)
}

fn shard(server: &Server) -> Arc<Shard> {
    shard_of(server, &InstanceId::literal("i1"))
}

fn shard_of(server: &Server, instance: &InstanceId) -> Arc<Shard> {
    let begun = Instant::now();
    loop {
        if let Some(fragment) = server.fragment(instance) {
            return fragment.namespace(0).unwrap().shard.unwrap();
        }
        assert!(begun.elapsed() < WAIT_MAX, "{:?}", server.fragments());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn create(shard: &Shard, n: u64) {
    let request =
        Request::Create { parent: ROOT, name: format!("{n}").into(), mode: 0o600, creator: CREATOR };
    let reply = shard.handle(Caller::new(SessionId([3; 16]), n), request);
    assert!(matches!(reply, Reply::Made { .. }), "{reply:?}");
}

/// Two nodes, of which the first is the home of the namespace, and their addresses.
fn pair(folder: &Path) -> (Vec<Arc<Server>>, Vec<String>) {
    pair_over(folder, &InstanceId::literal("i1"), str::to_owned)
}

/// The same for this instance, where the nodes reach each other by other addresses.
fn pair_over(
    folder: &Path,
    instance: &InstanceId,
    way: impl Fn(&str) -> String,
) -> (Vec<Arc<Server>>, Vec<String>) {
    let (servers, addresses): (Vec<_>, Vec<_>) = (0..2).map(|n| serve(folder, n, "127.0.0.1:0")).unzip();
    let ways: Vec<String> = addresses.iter().map(|address| way(address)).collect();
    let address = |(n, tcp): (usize, &String)| StorageAddress {
        node: NodeName::unchecked(format!("n{n}")),
        tcp: tcp.clone(),
        unix: None,
    };
    for index in FragmentIndex::all(2) {
        let (layout, owner) = (Layout::striped(2), Owner { uid: 7, gid: 8 });
        let namespace = NamespaceSpec { id: 0, layout, home: FragmentIndex(0), owner, mode: 0o700 };
        let spec = FragmentSpec {
            instance: instance.clone(),
            index,
            capacity_bytes: 1 << 20,
            volume: VolumeKind::Directory,
            key: "ab".repeat(32),
            peers: ways.iter().enumerate().map(address).collect(),
            namespaces: vec![namespace],
            grace_ms: 1000,
            missing: wire::node::Missing::Made,
            ..FragmentSpec::default()
        };
        servers[index.place()].create_fragment(&spec).unwrap();
    }
    (servers, addresses)
}

#[test]
fn a_log_that_was_replaced_comes_back_from_the_copy_with_all_that_came_after() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, addresses) = pair(folder.path());
    let home = shard(&servers[0]);
    for n in 0..60 {
        create(&home, n);
        match n % 6 {
            1 | 4 => home.sync_log().unwrap(),
            2 => home.replace_log().unwrap(),
            _ => {}
        }
    }
    home.sync_log().unwrap();
    drop(home);
    servers[0].shutdown();
    std::fs::remove_file(root(folder.path(), 0).join("i1/namespaces/0/meta.log")).unwrap();
    let (again, _) = serve(folder.path(), 0, &addresses[0]);
    let home = shard(&again);
    let state = home.lock();
    for n in 0..60 {
        assert!(names::lookup(&state.tree, ROOT, format!("{n}").as_bytes()).is_ok(), "{n} is lost");
    }
}

#[test]
fn a_copy_that_is_lost_while_nothing_changes_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (servers, addresses) = pair(folder.path());
    let home = shard(&servers[0]);
    create(&home, 1);
    home.sync_log().unwrap();
    let copy = root(folder.path(), 1).join("i1/copies/0/meta.log");
    let until_there = || {
        let begun = Instant::now();
        while !std::fs::metadata(&copy).is_ok_and(|copy| copy.len() == home.lock().log.len()) {
            assert!(begun.elapsed() < 3 * WAIT_MAX, "there is none");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    until_there();
    servers[1].shutdown();
    std::fs::remove_file(&copy).unwrap();
    let (_again, _) = serve(folder.path(), 1, &addresses[1]);
    until_there();
}

/// A way to an address on which everything stands still while it is blocked, though connections can be made and are not
/// broken: as to a process that is frozen, whose kernel goes on.
fn way_to(address: &str, blocked: &Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let way = listener.local_addr().unwrap().to_string();
    let (address, blocked) = (address.to_owned(), blocked.clone());
    let pump = |mut from: TcpStream, mut to: TcpStream, blocked: Arc<AtomicBool>| {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            while blocked.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _gone = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    };
    std::thread::spawn(move || {
        for near in listener.incoming().flatten() {
            let Ok(far) = TcpStream::connect(&address) else { continue };
            let (back, forth) = (far.try_clone().unwrap(), near.try_clone().unwrap());
            let (one, other) = (blocked.clone(), blocked.clone());
            std::thread::spawn(move || pump(near, far, one));
            std::thread::spawn(move || pump(back, forth, other));
        }
    });
    way
}

#[test]
fn a_keeper_that_is_frozen_is_given_up_and_the_new_place_is_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = Arc::new(AtomicBool::new(false));
    let way = |address: &str| way_to(address, &frozen);
    let (servers, addresses) = pair_over(folder.path(), &InstanceId::literal("frozen"), way);
    let home = shard_of(&servers[0], &InstanceId::literal("frozen"));
    let is_whole = || home.copy().is_some_and(|behind| behind.whole && behind.bytes == 0);
    let until = |what: &dyn Fn() -> bool| {
        let begun = Instant::now();
        while !what() {
            assert!(begun.elapsed() < 4 * WAIT_MAX, "{:?}", home.copy());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    create(&home, 1);
    home.sync_log().unwrap();
    until(&is_whole);
    frozen.store(true, Ordering::Relaxed);
    create(&home, 2);
    until(&|| home.copy().is_some_and(|behind| behind.error.is_some()));
    // Control has its place taken by another, which is the same node here, by another way.
    let address = StorageAddress { node: NodeName::literal("n2"), tcp: addresses[1].clone(), unix: None };
    let moved = wire::data::moved::with("", &InstanceId::literal("frozen"), 1.into(), &address).unwrap();
    std::fs::write(folder.path().join(wire::data::moved::NAME), moved).unwrap();
    wire::data::moved::look_in(folder.path());
    until(&is_whole);
    frozen.store(false, Ordering::Relaxed);
}
