//! Names and data of a namespace on one node and on several.

use std::sync::Arc;

use client::{Client, Contents, Errno, Names, Node, Operations, ROOT, RequestId::New, SetAttr, Sharing};
use wire::data::message::{AllocateMode, RenameMode, XattrMode};

use crate::support::{Cluster, ME, everywhere, pattern};

#[test]
fn bytes_come_back_across_stripes_and_to_another_client() {
    everywhere(|cluster, client| {
        let file = client.create(New, ROOT, b"f", 0o644, &ME).unwrap();
        let bytes = pattern(1_000_003, 1);
        client.write(file.ino, 70_001, &bytes).unwrap();
        let other = cluster.client();
        assert_eq!(other.getattr(file.ino).unwrap().size, 70_001 + 1_000_003);
        let mut back = vec![9; 1_200_000];
        assert_eq!(other.read(file.ino, 0, &mut back).unwrap(), 1_070_004);
        assert!(back[..70_001].iter().all(|&b| b == 0));
        assert_eq!(&back[70_001..1_070_004], &bytes);
        client.close(file.ino, true).unwrap();
        assert_eq!(other.lookup(ROOT, b"f").unwrap().size, 1_070_004);
    });
}

#[test]
fn sizes_follow_truncation_and_the_tail_reads_as_zeros() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, &pattern(500_000, 2)).unwrap();
        let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(client.setattr(New, ino, &size(100_000)).unwrap().size, 100_000);
        assert_eq!(client.setattr(New, ino, &size(400_000)).unwrap().size, 400_000);
        let mut back = vec![1; 500_000];
        assert_eq!(client.read(ino, 0, &mut back).unwrap(), 400_000);
        assert_eq!(&back[..100_000], &pattern(500_000, 2)[..100_000]);
        assert!(back[100_000..400_000].iter().all(|&b| b == 0));
        client.close(ino, true).unwrap();
        assert_eq!(client.getattr(ino).unwrap().size, 400_000);
    });
}

#[test]
fn a_full_buffer_refuses_and_removing_a_file_makes_room() {
    let cluster = Cluster::start(3, 1 << 20);
    let client = cluster.client();
    let big = client.create(New, ROOT, b"big", 0o644, &ME).unwrap().ino;
    assert_eq!(client.write(big, 0, &pattern(4 << 20, 0)), Err(Errno::NOSPC));
    client.close(big, true).unwrap();
    client.unlink(New, ROOT, b"big").unwrap();
    let next = client.create(New, ROOT, b"next", 0o644, &ME).unwrap().ino;
    client.write(next, 0, &pattern(2 << 20, 0)).unwrap();
    assert_eq!(client.usage().unwrap().capacity, 3 << 20);
    assert_eq!(client.usage().unwrap().used, 2 << 20);
}

#[test]
fn an_open_file_stays_readable_after_its_name_is_gone() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, b"still here").unwrap();
        client.unlink(New, ROOT, b"f").unwrap();
        let mut back = [0; 10];
        assert_eq!(client.read(ino, 0, &mut back).unwrap(), 10);
        assert_eq!(&back, b"still here");
        assert_eq!(client.getattr(ino).unwrap().nlink, 0);
        client.close(ino, true).unwrap();
        assert_eq!(client.lookup(ROOT, b"f"), Err(Errno::NOENT));
    });
}

#[test]
fn names_follow_posix() {
    let cluster = Cluster::start(1, 1 << 20);
    let client = cluster.client();
    let a = client.mkdir(New, ROOT, b"a", 0o755, &ME).unwrap().ino;
    let b = client.mkdir(New, a, b"b", 0o755, &ME).unwrap().ino;
    assert_eq!(client.mkdir(New, ROOT, b"a", 0o755, &ME), Err(Errno::EXIST));
    assert_eq!(client.rename(New, ROOT, b"a", b, b"x", RenameMode::Replace), Err(Errno::INVAL));
    assert_eq!(client.rmdir(New, ROOT, b"a"), Err(Errno::NOTEMPTY));
    assert_eq!(client.unlink(New, a, b"b"), Err(Errno::ISDIR));
    let f = client
        .mknod(New, a, b"f", &Node { kind: client::FileKind::Regular, mode: 0o600, rdev: 0 }, &ME)
        .unwrap()
        .ino;
    assert_eq!(client.link(New, f, ROOT, b"g").unwrap().nlink, 2);
    client.rename(New, a, b"f", ROOT, b"g", RenameMode::Replace).unwrap();
    assert_eq!(
        client.lookup(a, b"f").unwrap().ino,
        f,
        "a rename onto another name of the same file does nothing"
    );
    client.rename(New, a, b"f", a, b"b", RenameMode::Exchange).unwrap();
    assert_eq!((client.lookup(a, b"b").unwrap().ino, client.lookup(a, b"f").unwrap().ino), (f, b));
    assert_eq!(client.rename(New, ROOT, b"g", a, b"f", RenameMode::Replace), Err(Errno::ISDIR));
    assert_eq!(client.lookup(ROOT, &[b'x'; 256]), Err(Errno::NAMETOOLONG));
    assert_eq!(client.getattr(ROOT).unwrap().nlink, 3);
    let names: Vec<Vec<u8>> = client.readdir(a, 0).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names.len(), 2);
}

#[test]
fn holes_are_found_and_punched() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 1 << 20, &pattern(300_000, 3)).unwrap();
        assert_eq!(client.next_data(ino, 0).unwrap().unwrap().start, 1 << 20);
        assert_eq!(client.next_hole(ino, 0, 2 << 20).unwrap(), 0);
        let size = (1 << 20) + 300_000;
        assert_eq!(client.next_hole(ino, 1 << 20, size).unwrap(), size);
        client.allocate(ino, 1 << 20, 131_072, AllocateMode::PunchHole).unwrap();
        assert_eq!(client.next_data(ino, 0).unwrap().unwrap().start, (1 << 20) + 131_072);
        assert_eq!(client.next_data(ino, 5 << 20).unwrap(), None);
    });
}

#[test]
fn a_node_that_is_started_again_still_has_everything_and_the_client_only_waits() {
    for fragments in [1, 3] {
        let mut cluster = Cluster::start(fragments, 64 << 20);
        let client = Arc::new(cluster.client());
        let kept = client.create(New, ROOT, b"kept", 0o640, &ME).unwrap().ino;
        client.write(kept, 0, &pattern(400_000, 4)).unwrap();
        client.setxattr(New, kept, b"user.note", b"hello", XattrMode::Any).unwrap();
        let gone = client.create(New, ROOT, b"gone", 0o640, &ME).unwrap().ino;
        client.write(gone, 0, b"open and nameless").unwrap();
        client.unlink(New, ROOT, b"gone").unwrap();
        for n in 0..fragments as usize {
            let tcp = cluster.target.nodes[n].tcp.clone();
            cluster.servers[n].shutdown();
            let worker = client.clone();
            let waits = std::thread::spawn(move || worker.write(kept, 400_000, b"tail"));
            std::thread::sleep(std::time::Duration::from_millis(100));
            let again = cluster.serve(n, &tcp);
            cluster.servers[n] = again;
            waits.join().unwrap().unwrap();
        }
        let mut back = vec![0; 400_004];
        assert_eq!(client.read(kept, 0, &mut back).unwrap(), 400_004);
        assert_eq!(&back[400_000..], b"tail");
        assert_eq!(&back[..400_000], &pattern(400_000, 4));
        assert_eq!(client.getxattr(kept, b"user.note").unwrap(), b"hello");
        let mut back = [0; 17];
        assert_eq!(client.read(gone, 0, &mut back).unwrap(), 17);
        client.close(kept, true).unwrap();
        assert_eq!(client.getattr(kept).unwrap().size, 400_004);
    }
}

#[test]
fn an_attribute_takes_the_room_of_the_one_that_it_replaces() {
    everywhere(|_, client| {
        let ino = client.create(New, ROOT, b"described", 0o640, &ME).unwrap().ino;
        for value in [[1; 60_000], [2; 60_000]] {
            for name in ["user.a", "user.b", "user.c", "user.d"] {
                client.setxattr(New, ino, name.as_bytes(), &value, XattrMode::Any).unwrap();
            }
        }
        assert_eq!(client.getxattr(ino, b"user.d").unwrap(), [2; 60_000]);
        let beyond = client.setxattr(New, ino, b"user.e", &[3; 60_000], XattrMode::Any);
        assert_eq!(beyond, Err(Errno::NOSPC));
    });
}

#[test]
fn appends_from_several_clients_lose_nothing() {
    everywhere(|cluster, client| {
        let ino = client.create(New, ROOT, b"log", 0o644, &ME).unwrap().ino;
        std::thread::scope(|scope| {
            for writer in 0..4u8 {
                scope.spawn(move || {
                    let client = cluster.client();
                    client.open(ino, true).unwrap();
                    for n in 0..50u8 {
                        client.append(New, ino, &[[writer; 32], [n; 32]].concat()).unwrap();
                    }
                    client.close(ino, true).unwrap();
                });
            }
        });
        client.close(ino, true).unwrap();
        assert_eq!(client.getattr(ino).unwrap().size, 4 * 50 * 64);
        let mut log = vec![9; 4 * 50 * 64];
        client.read(ino, 0, &mut log).unwrap();
        let mut records: Vec<(u8, u8)> = log
            .chunks(64)
            .map(|record| {
                assert!(
                    record[..32].iter().all(|b| *b == record[0])
                        && record[32..].iter().all(|b| *b == record[32])
                );
                (record[0], record[32])
            })
            .collect();
        let in_order = (0..4).all(|writer| records.iter().filter(|r| r.0 == writer).is_sorted());
        assert!(in_order);
        records.sort_unstable();
        records.dedup();
        assert_eq!(records.len(), 200);
    });
}

#[test]
fn what_a_client_that_is_alone_knows_of_a_folder_is_what_the_shard_knows() {
    let cluster = Cluster::start(3, 64 << 20);
    let alone = cluster.client().with_sharing(Sharing::Exclusive);
    alone.look_around();
    let folder = alone.mkdir(New, ROOT, b"d", 0o755, &ME).unwrap().ino;
    // A client for each look: it has asked nobody before.
    let agrees = |step: &str| {
        assert_eq!(alone.getattr(folder).unwrap(), cluster.client().getattr(folder).unwrap(), "{step}");
        for name in [&b"a"[..], b"b", b"c", b"sub"] {
            let looked = |client: &Client| client.lookup(folder, name).map(|attr| attr.ino);
            assert_eq!(looked(&alone), looked(&cluster.client()), "{step}");
        }
    };
    agrees("mkdir");
    assert_eq!(alone.lookup(folder, &[b'x'; 256]).map(|attr| attr.ino), Err(Errno::NAMETOOLONG));
    let file = alone.create(New, folder, b"a", 0o644, &ME).unwrap().ino;
    agrees("create");
    alone.close(file, true).unwrap();
    alone.mkdir(New, folder, b"sub", 0o755, &ME).unwrap();
    agrees("mkdir in it");
    alone.link(New, file, folder, b"b").unwrap();
    agrees("link");
    alone.rename(New, folder, b"a", folder, b"c", RenameMode::Replace).unwrap();
    agrees("rename");
    alone.setattr(New, folder, &SetAttr { mode: Some(0o700), ..SetAttr::default() }).unwrap();
    agrees("chmod");
    alone.setxattr(New, folder, b"user.x", b"1", XattrMode::Any).unwrap();
    agrees("setxattr");
    alone.unlink(New, folder, b"c").unwrap();
    agrees("unlink");
    alone.rmdir(New, folder, b"sub").unwrap();
    agrees("rmdir");
    alone.symlink(New, folder, b"a", b"elsewhere", &ME).unwrap();
    agrees("symlink");
}

#[test]
fn space_of_a_file_that_was_closed_and_removed_a_moment_ago_is_free() {
    let cluster = Cluster::start(1, 4 << 20);
    let client = cluster.client().hold_closes();
    for round in 0..20 {
        let ino = client.create(New, ROOT, b"f", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, &pattern(3 << 20, round)).unwrap();
        client.close(ino, true).unwrap();
        client.unlink(New, ROOT, b"f").unwrap();
    }
}

#[test]
fn a_file_that_is_opened_again_and_again_has_its_size_when_its_client_is_gone() {
    let cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client().hold_closes();
    let bytes = pattern(200_000, 7);
    let ino = client.create(New, ROOT, b"f", 0o600, &ME).unwrap().ino;
    client.close(ino, true).unwrap();
    for (n, piece) in bytes.chunks(1000).enumerate() {
        assert_eq!(client.open(ino, true).unwrap(), 0o600);
        client.write(ino, n as u64 * 1000, piece).unwrap();
        client.close(ino, true).unwrap();
    }
    drop(client);
    let other = cluster.client();
    assert_eq!(other.getattr(ino).unwrap().size, 200_000);
    let mut back = vec![0; 200_000];
    assert_eq!(other.read(ino, 0, &mut back).unwrap(), 200_000);
    assert_eq!(back, bytes);
}

#[test]
fn files_that_are_made_and_closed_in_a_row_are_all_there_and_closed() {
    let cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client().hold_closes();
    // More than are held at once, faster than they are sent by themselves.
    for n in 0..300_u64 {
        let ino = client.create(New, ROOT, format!("f{n}").as_bytes(), 0o600, &ME).unwrap().ino;
        client.write(ino, 0, &pattern(10, 3)).unwrap();
        client.close(ino, true).unwrap();
    }
    let entries = cluster.client().readdir(ROOT, 0).unwrap();
    assert_eq!(entries.len(), 300);
    assert!(entries.iter().all(|entry| entry.attr.size == 10));
}
