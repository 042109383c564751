//! What belongs to a session: its locks, numbered changes, fences, and successors.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{
    Client, Contents, Errno, FileLock, Held, LockKind, Names, Operations, ROOT,
    RequestId::{Given, New},
};
use model::SessionId;
use wire::data::dial::{Via, dial};
use wire::data::hello::Claim;
use wire::data::message::RenameMode;
use wire::data::{Connection, Reply, Request};

use crate::support::{Cluster, ME, everywhere, member};

fn range(kind: LockKind, start: u64, end: u64) -> FileLock {
    FileLock { kind, start, end, pid: 1, whole_file: false }
}

#[test]
fn a_lock_keeps_another_client_out_until_it_is_given_up_or_its_holder_is_gone() {
    let cluster = Cluster::start(1, 1 << 20);
    let (a, b) = (cluster.client(), cluster.client());
    let ino = a.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
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
    let gone = Instant::now();
    let gives_up = || gone.elapsed() > Duration::from_secs(30);
    b.wait_lock(ino, 1, &range(LockKind::Exclusive, 0, u64::MAX), true, &gives_up).unwrap();
}

#[test]
fn locks_survive_a_restart_of_the_shard() {
    let mut cluster = Cluster::start(1, 1 << 20);
    let (a, b) = (Arc::new(cluster.client()), cluster.client());
    let ino = a.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
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

/// Carries what comes to a node that is at `target` whenever it is there. The first connection that two requests are
/// answered on at once, after `armed`, carries the first of these answers and breaks; where it is cut already, any
/// connection after any answer.
pub fn cutting_relay(target: String, armed: Arc<AtomicBool>, cut: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Without its target, or cut, the connection ends at once.
            let Ok(other) = TcpStream::connect(&target) else { continue };
            if cut.load(Ordering::SeqCst) {
                continue;
            }
            let (mut up, mut down) = (stream.try_clone().unwrap(), other.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ended = std::io::copy(&mut up, &mut down);
                let _gone = down.shutdown(Shutdown::Write);
            });
            let (armed, cut) = (Arc::clone(&armed), Arc::clone(&cut));
            std::thread::spawn(move || carry_answers(other, stream, &armed, &cut));
        }
    });
    address
}

fn carry_answers(mut from: TcpStream, mut to: TcpStream, armed: &AtomicBool, cut: &AtomicBool) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        // A frame is a head of 16 bytes, that begins with the lengths of message and payload.
        let length = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let first = if count < 16 { count } else { 16 + length(0) + length(4) };
        let is_second_there = armed.load(Ordering::SeqCst) && first < count;
        if to.write_all(&bytes[..if is_second_there { first } else { count }]).is_err() {
            break;
        }
        if is_second_there || (armed.load(Ordering::SeqCst) && cut.load(Ordering::SeqCst)) {
            cut.store(true, Ordering::SeqCst);
            break;
        }
    }
    for stream in [from, to] {
        let _gone = stream.shutdown(Shutdown::Both);
    }
}

#[test]
fn a_file_whose_open_was_answered_as_the_shard_died_is_open_at_the_next() {
    let mut cluster = Cluster::start(2, 1 << 20);
    let other = cluster.client();
    let [a, b, control] = [&b"a"[..], b"b", b"control"].map(|name| {
        let ino = other.create(New, ROOT, name, 0o644, &ME).unwrap().ino;
        other.close(ino, true).unwrap();
        ino
    });
    let (armed, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut target = cluster.target.clone();
    target.nodes[0].tcp = cutting_relay(target.nodes[0].tcp.clone(), Arc::clone(&armed), Arc::clone(&cut));
    let client = Client::connect(&target).unwrap();
    armed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let opened = scope.spawn(|| client.open_all(&[a, b]));
        while !cut.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        armed.store(false, Ordering::SeqCst);
        let tcp = cluster.target.nodes[0].tcp.clone();
        cluster.servers[0].shutdown();
        cluster.servers[0] = cluster.serve(0, &tcp);
        cut.store(false, Ordering::SeqCst);
        assert!(opened.join().unwrap().iter().all(Result::is_ok));
    });
    for name in [&b"a"[..], b"b", b"control"] {
        other.unlink(New, ROOT, name).unwrap();
    }
    // Removed in the background; if never, this never ends.
    while other.getattr(control) != Err(Errno::STALE) {
        std::thread::yield_now();
    }
    assert_eq!([a, b].map(|ino| client.getattr(ino).is_ok()), [true, true], "an open file is kept");
}

#[test]
fn a_client_that_was_away_for_the_grace_period_writes_nothing_that_nobody_sees() {
    let cluster = Cluster::start_with_grace(2, 200);
    let other = cluster.client();
    let [kept, gone] = [&b"kept"[..], b"gone"].map(|name| {
        let ino = other.create(New, ROOT, name, 0o644, &ME).unwrap().ino;
        other.close(ino, true).unwrap();
        ino
    });
    let (armed, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut target = cluster.target.clone();
    for node in &mut target.nodes {
        node.tcp = cutting_relay(node.tcp.clone(), Arc::clone(&armed), Arc::clone(&cut));
    }
    let client = Client::connect(&target).unwrap();
    for ino in [kept, gone] {
        client.open(ino, true).unwrap();
        client.write(ino, 0, &[1; 100_000]).unwrap();
    }
    other.unlink(New, ROOT, b"gone").unwrap();
    // Whatever is carried from now on is its last.
    armed.store(true, Ordering::SeqCst);
    cut.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| client.getattr(kept).is_ok());
        while other.getattr(gone) != Err(Errno::STALE) {
            std::thread::yield_now();
        }
        // Another writer comes and goes: the size is settled.
        other.open(kept, true).unwrap();
        other.write(kept, 0, &[2; 10]).unwrap();
        other.close(kept, true).unwrap();
        armed.store(false, Ordering::SeqCst);
        cut.store(false, Ordering::SeqCst);
        assert!(asks.join().unwrap());
    });
    assert_eq!(client.read(gone, 0, &mut [0; 10]), Err(Errno::STALE), "what was there is not");
    assert_eq!(client.write(gone, 0, b"nobody's"), Err(Errno::STALE));
    client.write(kept, 200_000, &[3; 100]).unwrap();
    assert_eq!(other.getattr(kept).unwrap().size, 200_100, "what is written is seen");
    client.close(kept, true).unwrap();
    client.close(gone, true).unwrap();
    assert_eq!(other.getattr(kept).unwrap().size, 200_100);
}

#[test]
fn a_change_with_a_number_is_done_once_whoever_asks() {
    everywhere(|cluster, client| {
        let made = client.create(Given(2), ROOT, b"f", 0o644, &ME).unwrap();
        client.rename(Given(4), ROOT, b"f", ROOT, b"g", RenameMode::Replace).unwrap();
        let successor =
            Client::resume(&cluster.target, client.session(), Default::default(), Default::default())
                .unwrap();
        assert_eq!(successor.create(Given(2), ROOT, b"f", 0o644, &ME).unwrap().ino, made.ino);
        successor.rename(Given(4), ROOT, b"f", ROOT, b"g", RenameMode::Replace).unwrap();
        assert_eq!(successor.readdir(ROOT, 0).unwrap().len(), 1);
        assert_eq!(successor.create(Given(6), ROOT, b"g", 0o644, &ME), Err(Errno::EXIST));
        let first = successor.append(Given(8), made.ino, b"once").unwrap();
        assert_eq!(successor.append(Given(8), made.ino, b"once").unwrap(), first);
        assert_eq!(successor.getattr(made.ino).unwrap().size, 4);
    });
}

#[test]
fn a_fence_ends_what_the_session_has_under_way_and_nobody_elses() {
    everywhere(|cluster, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        let lock = range(LockKind::Exclusive, 0, 9);
        client.set_lock(ino, 1, &lock).unwrap();
        let dial = |session| {
            let claim = Claim { instance: "i1".parse().unwrap(), namespace: 0, fragment: 0.into(), session };
            let (mut connection, _) = dial(&cluster.target.nodes[0], Via::Tcp, &member(), &claim).unwrap();
            connection.send(1, &Request::Ping, &[]).unwrap();
            assert_eq!(connection.receive::<Reply>().unwrap().message, Reply::Done);
            connection
        };
        let [mut dead, mut other, mut successor] = [1, 2, 1].map(|n| dial(SessionId([n; 16])));
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
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"written before").unwrap();
        client.unlink(New, ROOT, b"f").unwrap();
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
    let (key, address) = (member(), &cluster.target.nodes[0]);
    let session = SessionId([7; 16]);
    let claim = Claim { instance: "i1".parse().unwrap(), namespace: 0, fragment: 0.into(), session };
    for _ in 0..200 {
        let both = [(); 2].map(|()| dial(address, Via::Tcp, &key, &claim).unwrap().0.into_stream().unwrap());
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
    first.create(New, ROOT, b"f", 0o644, &ME).unwrap();
    heir.inherit();
    assert_eq!((heir.sync_metadata(), stranger.sync_metadata()), (Ok(()), Ok(())), "nothing is lost");
    heir.inherit();
    cluster.lose_power(0);
    assert_eq!((heir.sync_metadata(), stranger.sync_metadata()), (Err(Errno::IO), Ok(())));
}
