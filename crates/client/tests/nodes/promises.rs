//! What docs/SEMANTICS.md promises of several nodes, with a client for each node and no kernel in between.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use client::{Client, Contents, Creator, Errno, Names, ROOT, RequestId::New, SetAttr, Time};
use wire::data::message::{RenameMode, XattrMode};
use wire::data::{NAME_BYTES_MAX, XATTR_BYTES_MAX};

use crate::support::{Cluster, ME, everywhere, pattern};

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
            let ino = client.create(New, ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino;
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
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
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
                &at_once(cluster, |_, client| client.create(New, ROOT, &name("f"), 0o644, &ME)),
                Errno::EXIST,
            );
            one_winner(
                &at_once(cluster, |_, client| client.mkdir(New, ROOT, &name("d"), 0o755, &ME)),
                Errno::EXIST,
            );
            let ino = client.lookup(ROOT, &name("f")).unwrap().ino;
            one_winner(&at_once(cluster, |_, client| client.link(New, ino, ROOT, &name("l"))), Errno::EXIST);
            let moved = at_once(cluster, |node, client| {
                client.rename(
                    New,
                    ROOT,
                    &name("l"),
                    ROOT,
                    format!("moved{node}").as_bytes(),
                    RenameMode::Replace,
                )
            });
            one_winner(&moved, Errno::NOENT);
            one_winner(&at_once(cluster, |_, client| client.unlink(New, ROOT, &name("f"))), Errno::NOENT);
            one_winner(&at_once(cluster, |_, client| client.rmdir(New, ROOT, &name("d"))), Errno::NOENT);
            assert_eq!(client.getattr(ino).unwrap().nlink, 1);
            let winner = moved.iter().position(Result::is_ok).unwrap();
            client.unlink(New, ROOT, format!("moved{winner}").as_bytes()).unwrap();
            assert!(client.readdir(ROOT, 0).unwrap().is_empty());
        }
    });
}

#[test]
fn extended_attributes_have_limits_and_those_of_the_system_are_refused() {
    everywhere(|_, client| {
        let ino = client.mkdir(New, ROOT, b"d", 0o755, &ME).unwrap().ino;
        let value = pattern(XATTR_BYTES_MAX, 1);
        for name in ["user.a", "trusted.b", "security.c"] {
            client.setxattr(New, ino, name.as_bytes(), &value, XattrMode::Any).unwrap();
            assert_eq!(client.getxattr(ino, name.as_bytes()).unwrap(), value);
        }
        assert_eq!(
            client.setxattr(New, ino, b"user.d", &vec![0; XATTR_BYTES_MAX + 1], XattrMode::Any),
            Err(Errno::TOOBIG)
        );
        assert_eq!(
            client.setxattr(New, ino, b"user.d", &value, XattrMode::Any),
            Err(Errno::NOSPC),
            "256 KiB with the names"
        );
        assert_eq!(
            client.setxattr(New, ino, &[b'x'; NAME_BYTES_MAX + 1], b"", XattrMode::Any),
            Err(Errno::RANGE)
        );
        assert_eq!(
            client.setxattr(New, ino, b"system.nfs4_acl", b"x", XattrMode::Any),
            Err(Errno::OPNOTSUPP)
        );
        assert_eq!(client.getxattr(ino, b"system.nfs4_acl"), Err(Errno::OPNOTSUPP));
        assert_eq!(client.setxattr(New, ino, b"user.a", b"", XattrMode::Create), Err(Errno::EXIST));
        assert_eq!(client.listxattr(ino).unwrap().len(), 3);
    });
}

/// An access list: linux/posix_acl_xattr.h, version 2; the owner, user 7, the group, the mask and others.
fn list(owner: u8, user: u8, group: u8, mask: u8, other: u8) -> Vec<u8> {
    let entry = |tag: u8, bits: u8, id: u8| [tag, 0, bits, 0, id, 0, 0, 0];
    let entries =
        [entry(1, owner, 0), entry(2, user, 7), entry(4, group, 0), entry(16, mask, 0), entry(32, other, 0)];
    [&[2, 0, 0, 0], entries.concat().as_slice()].concat()
}

#[test]
fn access_lists_follow_the_mode_and_are_inherited() {
    const ACCESS: &[u8] = b"system.posix_acl_access";
    const DEFAULT: &[u8] = b"system.posix_acl_default";
    everywhere(|_, client| {
        let masking = Creator { umask: 0o077, ..ME };
        let d = client.mkdir(New, ROOT, b"d", 0o777, &masking).unwrap();
        assert_eq!(d.mode, 0o700);
        assert_eq!(
            client.setxattr(New, d.ino, ACCESS, &list(7, 7, 5, 8, 0), XattrMode::Any),
            Err(Errno::INVAL)
        );
        client.setxattr(New, d.ino, ACCESS, &list(7, 7, 5, 7, 0), XattrMode::Any).unwrap();
        assert_eq!(client.getattr(d.ino).unwrap().mode, 0o770);
        client.setattr(New, d.ino, &SetAttr { mode: Some(0o751), ..SetAttr::default() }).unwrap();
        assert_eq!(client.getxattr(d.ino, ACCESS).unwrap(), list(7, 7, 5, 5, 1));

        client.setxattr(New, d.ino, DEFAULT, &list(7, 6, 5, 6, 0), XattrMode::Any).unwrap();
        let f = client.create(New, d.ino, b"f", 0o666, &masking).unwrap();
        assert_eq!(f.mode, 0o660, "the list counts, not the umask");
        assert_eq!(client.getxattr(f.ino, ACCESS).unwrap(), list(6, 6, 5, 6, 0));
        assert_eq!(client.getxattr(f.ino, DEFAULT), Err(Errno::NODATA));
        assert_eq!(
            client.setxattr(New, f.ino, DEFAULT, &list(7, 6, 5, 6, 0), XattrMode::Any),
            Err(Errno::ACCESS)
        );
        let sub = client.mkdir(New, d.ino, b"sub", 0o777, &masking).unwrap();
        assert_eq!(client.getxattr(sub.ino, DEFAULT).unwrap(), list(7, 6, 5, 6, 0));

        // What the mode says by itself is no list; whoever is not of the group loses set-group-id.
        client.setattr(New, f.ino, &SetAttr { mode: Some(0o2660), ..SetAttr::default() }).unwrap();
        let minimal = [&list(6, 0, 4, 0, 0)[..12], &list(6, 0, 4, 0, 0)[20..28], &list(6, 0, 4, 0, 0)[36..]];
        client.setxattr(New, f.ino, ACCESS, &minimal.concat(), XattrMode::DropSetGid).unwrap();
        assert_eq!(client.getattr(f.ino).unwrap().mode, 0o640);
        assert_eq!(client.getxattr(f.ino, ACCESS), Err(Errno::NODATA));
    });
}

#[test]
fn reading_changes_no_time() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
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
    let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(3 * 65_536, 1)).unwrap();
    cluster.servers[1].shutdown();
    let reads = (0..3).map(|stripe| client.read(ino, stripe * 65_536, &mut [0; 100]));
    let failed: Vec<Errno> = reads.filter_map(Result::err).collect();
    assert_eq!(failed, [Errno::IO]);
}

#[test]
fn a_storage_node_that_stays_away_is_waited_for_once_and_used_again_when_it_is_back() {
    const GRACE: Duration = Duration::from_secs(2);
    const CALLERS: usize = 4;
    let mut cluster = Cluster::start(3, 64 << 20);
    cluster.target.grace_ms = u64::try_from(GRACE.as_millis()).unwrap();
    let client = cluster.client();
    let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
    let bytes = pattern(12 * 65_536, 1);
    client.write(ino, 0, &bytes).unwrap();
    cluster.servers[1].shutdown();

    // Each reads four stripes that are away, again and again: 48 waits, if each were one.
    let begin = Instant::now();
    let read = |_| (0..3).all(|_| client.read(ino, 0, &mut vec![0; bytes.len()]) == Err(Errno::IO));
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|n| scope.spawn(move || read(n))).collect();
        assert!(callers.into_iter().all(|caller| caller.join().unwrap()));
    });
    assert!(begin.elapsed() < 3 * GRACE, "waited for {:?}", begin.elapsed());

    let address = cluster.target.nodes[1].tcp.clone();
    cluster.servers[1] = cluster.serve(1, &address);
    let give_up = Instant::now() + 15 * GRACE;
    let mut read = vec![0; bytes.len()];
    while client.read(ino, 0, &mut read).is_err() {
        assert!(Instant::now() < give_up, "it is back, and not used");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(read == bytes);
}
