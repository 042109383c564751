//! What docs/SEMANTICS.md promises of several nodes, with a client for each node and no kernel in between.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::Barrier;

use client::{Client, Errno, ROOT, Time};
use wire::data::message::XattrMode;
use wire::data::{NAME_BYTES_MAX, XATTR_BYTES_MAX};

use support::{Cluster, ME, everywhere, pattern};

const NODES: usize = 4;

/// Does `action` with a client for each node at the same moment; what each gave.
fn at_once<T: Send>(cluster: &Cluster, action: impl Fn(usize, &Client) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(NODES);
    let run = |node| {
        let client = cluster.client();
        start.wait();
        action(node, &client)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (0..NODES).map(|node| scope.spawn(move || run(node))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[track_caller]
fn one_winner<T>(answers: &[Result<T, Errno>], loser: Errno) {
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().filter_map(|answer| answer.as_ref().err()).all(|errno| *errno == loser));
}

#[test]
fn records_of_four_clients_never_damage_each_other() {
    everywhere(|cluster, client| {
        for record in [100, 47_008] {
            let name = record.to_string();
            let ino = client.create(ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino;
            let records = 2_000_000 / record;
            let whole = pattern(records * record, record);
            at_once(cluster, |node, client| {
                client.open(ino, true).unwrap();
                for n in (node..records).step_by(NODES) {
                    client.write(ino, (n * record) as u64, &whole[n * record..][..record]).unwrap();
                }
                client.close(ino, true).unwrap();
            });
            let mut read = vec![0; whole.len()];
            assert_eq!(client.read(ino, 0, &mut read), Ok(whole.len()));
            assert!(read == whole, "a record of {record} bytes is damaged");
        }
    });
}

#[test]
fn what_one_client_wrote_another_reads_and_stats_at_once() {
    everywhere(|cluster, client| {
        let other = cluster.client();
        let ino = client.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
        other.open(ino, true).unwrap();
        let mut before = Time::default();
        for round in 0..50u64 {
            let (writer, reader) = if round % 2 == 0 { (client, &other) } else { (&other, client) };
            let bytes = pattern(3000, round as usize);
            writer.write(ino, round * 50_000, &bytes).unwrap();
            let mut read = vec![0; 3000];
            assert_eq!(reader.read(ino, round * 50_000, &mut read), Ok(3000));
            assert!(read == bytes);
            let (own, seen) = (writer.getattr(ino).unwrap(), reader.getattr(ino).unwrap());
            assert_eq!((seen.size, seen.mtime), (round * 50_000 + 3000, own.mtime));
            assert!(seen.mtime >= before, "time goes on");
            before = seen.mtime;
        }
    });
}

#[test]
fn of_changes_that_exclude_each_other_one_wins() {
    everywhere(|cluster, client| {
        for round in 0..20 {
            let name = |what: &str| format!("{what}{round}").into_bytes();
            one_winner(
                &at_once(cluster, |_, client| client.create(ROOT, &name("f"), 0o644, &ME)),
                Errno::EXIST,
            );
            one_winner(
                &at_once(cluster, |_, client| client.mkdir(ROOT, &name("d"), 0o755, &ME)),
                Errno::EXIST,
            );
            let ino = client.lookup(ROOT, &name("f")).unwrap().ino;
            one_winner(&at_once(cluster, |_, client| client.link(ino, ROOT, &name("l"))), Errno::EXIST);
            let moved = at_once(cluster, |node, client| {
                client.rename(ROOT, &name("l"), ROOT, format!("moved{node}").as_bytes())
            });
            one_winner(&moved, Errno::NOENT);
            one_winner(&at_once(cluster, |_, client| client.unlink(ROOT, &name("f"))), Errno::NOENT);
            one_winner(&at_once(cluster, |_, client| client.rmdir(ROOT, &name("d"))), Errno::NOENT);
            assert_eq!(client.getattr(ino).unwrap().nlink, 1);
            let winner = moved.iter().position(Result::is_ok).unwrap();
            client.unlink(ROOT, format!("moved{winner}").as_bytes()).unwrap();
            assert!(client.readdir(ROOT, 0).unwrap().is_empty());
        }
    });
}

#[test]
fn extended_attributes_have_limits_and_acls_are_refused() {
    everywhere(|_, client| {
        let ino = client.mkdir(ROOT, b"d", 0o755, &ME).unwrap().ino;
        let value = pattern(XATTR_BYTES_MAX, 1);
        for name in ["user.a", "trusted.b", "security.c"] {
            client.setxattr(ino, name.as_bytes(), &value).unwrap();
            assert_eq!(client.getxattr(ino, name.as_bytes()).unwrap(), value);
        }
        assert_eq!(client.setxattr(ino, b"user.d", &vec![0; XATTR_BYTES_MAX + 1]), Err(Errno::TOOBIG));
        assert_eq!(client.setxattr(ino, b"user.d", &value), Err(Errno::NOSPC), "256 KiB with the names");
        assert_eq!(client.setxattr(ino, &[b'x'; NAME_BYTES_MAX + 1], b""), Err(Errno::RANGE));
        assert_eq!(client.setxattr(ino, b"system.posix_acl_access", b"x"), Err(Errno::OPNOTSUPP));
        assert_eq!(client.getxattr(ino, b"system.posix_acl_access"), Err(Errno::OPNOTSUPP));
        assert_eq!(client.setxattr_as(ino, b"user.a", b"", XattrMode::Create), Err(Errno::EXIST));
        assert_eq!(client.listxattr(ino).unwrap().len(), 3);
    });
}

#[test]
fn reading_changes_no_time() {
    everywhere(|_, client| {
        let ino = client.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"text").unwrap();
        client.close(ino, true).unwrap();
        let before = client.getattr(ino).unwrap();
        client.open(ino, false).unwrap();
        client.read(ino, 0, &mut [0; 4]).unwrap();
        client.close(ino, false).unwrap();
        assert_eq!(client.getattr(ino).unwrap(), before);
    });
}

#[test]
fn a_storage_node_that_stays_away_is_eio_after_the_grace_period() {
    let mut cluster = Cluster::start(3, 64 << 20);
    cluster.target.grace_ms = 300;
    let client = cluster.client();
    let ino = client.create(ROOT, b"f", 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(3 * 65_536, 1)).unwrap();
    cluster.servers[1].shutdown();
    let reads = (0..3).map(|stripe| client.read(ino, stripe * 65_536, &mut [0; 100]));
    let failed: Vec<Errno> = reads.filter_map(Result::err).collect();
    assert_eq!(failed, [Errno::IO]);
}
