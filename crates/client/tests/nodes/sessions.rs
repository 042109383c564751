//! What belongs to a session: its locks, numbered changes, fences, and successors.

use std::sync::Arc;

use client::{Client, Errno, FileLock, Held, LockKind, ROOT};
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, Key};
use wire::data::message::RenameMode;
use wire::data::{Connection, Reply, Request};

use crate::support::{Cluster, KEY, ME, everywhere};

fn range(kind: LockKind, start: u64, end: u64) -> FileLock {
    FileLock { kind, start, end, pid: 1, whole_file: false }
}

#[test]
fn a_lock_keeps_another_client_out_until_it_is_given_up_or_its_holder_is_gone() {
    let cluster = Cluster::start(1, 1 << 20);
    let (a, b) = (cluster.client(), cluster.client());
    let ino = a.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
    a.set_lock(ino, 1, &range(LockKind::Exclusive, 0, 99)).unwrap();
    assert_eq!(b.set_lock(ino, 1, &range(LockKind::Shared, 50, 60)), Err(Errno::AGAIN));
    assert_eq!(
        b.test_lock(ino, 1, &range(LockKind::Shared, 50, 60)).unwrap(),
        Some(range(LockKind::Exclusive, 0, 99))
    );
    b.set_lock(ino, 1, &range(LockKind::Exclusive, 100, 199)).unwrap();
    assert_eq!(b.wait_lock(ino, 1, &range(LockKind::Shared, 0, 9), true, &|| true), Err(Errno::INTR));
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| b.wait_lock(ino, 1, &range(LockKind::Shared, 0, 9), true, &|| false));
        a.set_lock(ino, 1, &range(LockKind::Unlock, 0, 49)).unwrap();
        waits.join().unwrap().unwrap();
    });
    drop(a);
    b.wait_lock(ino, 1, &range(LockKind::Exclusive, 0, u64::MAX), true, &|| false).unwrap();
}

#[test]
fn locks_survive_a_restart_of_the_shard() {
    let mut cluster = Cluster::start(1, 1 << 20);
    let (a, b) = (Arc::new(cluster.client()), cluster.client());
    let ino = a.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
    a.set_lock(ino, 1, &range(LockKind::Exclusive, 0, 99)).unwrap();
    a.set_lock(ino, 1, &range(LockKind::Unlock, 10, 19)).unwrap();
    a.keep_alive();
    let tcp = cluster.target.nodes[0].tcp.clone();
    cluster.servers[0].shutdown();
    cluster.servers[0] = cluster.serve(0, &tcp);
    // `a` does nothing but live; `b` asks for its lock at once and for as long as the shard recovers.
    b.wait_lock(ino, 1, &range(LockKind::Exclusive, 10, 19), true, &|| false).unwrap();
    assert_eq!(b.set_lock(ino, 1, &range(LockKind::Shared, 20, 20)), Err(Errno::AGAIN));
}

#[test]
fn a_change_with_a_number_is_done_once_whoever_asks() {
    everywhere(|cluster, client| {
        let numbered = |id| client.numbered(id);
        let made = numbered(2).create(ROOT, b"f", 0o644, &ME).unwrap();
        numbered(4).rename(ROOT, b"f", ROOT, b"g", RenameMode::Replace).unwrap();
        let successor =
            Client::resume(&cluster.target, client.session(), Default::default(), Default::default())
                .unwrap();
        let numbered = |id| successor.numbered(id);
        assert_eq!(numbered(2).create(ROOT, b"f", 0o644, &ME).unwrap().ino, made.ino);
        numbered(4).rename(ROOT, b"f", ROOT, b"g", RenameMode::Replace).unwrap();
        assert_eq!(successor.readdir(ROOT, 0).unwrap().len(), 1);
        assert_eq!(numbered(6).create(ROOT, b"g", 0o644, &ME), Err(Errno::EXIST));
        let first = numbered(8).append(made.ino, b"once").unwrap();
        assert_eq!(numbered(8).append(made.ino, b"once").unwrap(), first);
        assert_eq!(successor.getattr(made.ino).unwrap().size, 4);
    });
}

#[test]
fn a_fence_ends_what_the_session_has_under_way_and_nobody_elses() {
    everywhere(|cluster, client| {
        let ino = client.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
        let lock = range(LockKind::Exclusive, 0, 9);
        client.set_lock(ino, 1, &lock).unwrap();
        let dial = |session| {
            let claim = Claim { instance: "i1".into(), namespace: 0, fragment: 0, session };
            let (mut connection, _) =
                dial(&cluster.target.nodes[0], Via::Tcp, &Key::from_hex(KEY).unwrap(), &claim).unwrap();
            connection.send(1, &Request::Ping, &[]).unwrap();
            assert_eq!(connection.receive::<Reply>().unwrap().message, Reply::Done);
            connection
        };
        let (mut dead, mut other, mut successor) = (dial([1; 16]), dial([2; 16]), dial([1; 16]));
        let wait = Request::SetLock { ino, owner: 7, lock, wait_ms: 400 };
        for connection in [&mut dead, &mut other] {
            connection.send(2, &wait, &[]).unwrap();
        }
        successor.send(2, &Request::Fence, &[]).unwrap();
        assert_eq!(successor.receive::<Reply>().unwrap().message, Reply::Done);
        // Nobody is left who would answer, or do, what the dead one asked.
        assert!(dead.receive::<Reply>().is_err());
        let refused = Reply::Failed(Errno::AGAIN.raw_os_error());
        assert_eq!(other.receive::<Reply>().unwrap().message, refused);
    });
}

#[test]
fn a_client_that_goes_on_for_another_holds_what_that_held() {
    everywhere(|cluster, client| {
        let ino = client.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"written before").unwrap();
        client.unlink(ROOT, b"f").unwrap();
        let lock = range(LockKind::Exclusive, 0, 9);
        client.set_lock(ino, 1, &lock).unwrap();
        let held = Held { opens: vec![(ino, 0, 1)], locks: vec![(ino, 1, lock)] };
        let successor = Client::resume(&cluster.target, client.session(), held, Default::default()).unwrap();
        let mut bytes = [0; 14];
        assert_eq!(successor.read(ino, 0, &mut bytes), Ok(14));
        assert_eq!(&bytes, b"written before", "an unlinked file is kept while it is open");
        let other = cluster.client();
        assert_eq!(other.set_lock(ino, 1, &range(LockKind::Shared, 0, 0)), Err(Errno::AGAIN));
        successor.release_locks(ino, 1).unwrap();
        other.set_lock(ino, 1, &range(LockKind::Shared, 0, 0)).unwrap();
        successor.close(ino, true).unwrap();
        // Removed in the background; if never, this never ends.
        while other.getattr(ino) != Err(Errno::STALE) {
            std::thread::yield_now();
        }
    });
}

#[test]
fn two_connections_that_fence_each_other_off_do_not_wait_for_each_other() {
    let cluster = Cluster::start(1, 64 << 20);
    let (key, address) = (Key::from_hex(KEY).unwrap(), &cluster.target.nodes[0]);
    let claim = Claim { instance: "i1".into(), namespace: 0, fragment: 0, session: [7; 16] };
    for _ in 0..200 {
        let both = [(); 2].map(|()| dial(address, Via::Tcp, &key, &claim).unwrap().0.into_stream());
        let both = both.map(|stream| {
            stream.set_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
            Connection::new(stream)
        });
        let ends: Vec<_> = both
            .map(|mut connection| {
                std::thread::spawn(move || {
                    connection.send(1, &Request::Fence, &[])?;
                    connection.receive::<Reply>().map(drop)
                })
            })
            .map(|asking| asking.join().unwrap())
            .into_iter()
            .collect();
        let waits = |end: &std::io::Result<()>| {
            end.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
        };
        assert!(!ends.iter().any(waits), "{ends:?}");
    }
}

#[test]
fn who_goes_on_for_another_hears_of_names_that_were_lost_since_and_nobody_else() {
    let mut cluster = Cluster::start(2, 64 << 20);
    let (first, heir, stranger) = (cluster.client(), cluster.client(), cluster.client());
    first.create(ROOT, b"f", 0o644, &ME).unwrap();
    heir.inherit();
    assert_eq!((heir.sync_metadata(), stranger.sync_metadata()), (Ok(()), Ok(())), "nothing is lost");
    heir.inherit();
    cluster.lose_power(0);
    assert_eq!((heir.sync_metadata(), stranger.sync_metadata()), (Err(Errno::IO), Ok(())));
}
