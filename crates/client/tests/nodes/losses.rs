//! What one storage node lost of a file that was cut off, and who is told.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, Contents, Names, Operations, ROOT, RequestId::New, SetAttr};
use model::{FragmentIndex, Ino, InstanceId, SessionId};
use wire::data::dial::{Via, dial};
use wire::data::hello::Claim;
use wire::data::message::UNKNOWN_BYTES;
use wire::data::{Reply, Request};

use crate::support::{Cluster, ME, member, pattern};

/// The home of the namespace, and the node that loses something.
const HOME: usize = 0;
const LOSER: usize = 1;

/// A file is so long, and then so long.
const LONG: u64 = 300_000;
const SHORT: u64 = 10_000;

/// Somebody may take so long to notice.
const BOUND: Duration = Duration::from_secs(10);

fn resize(client: &Client, ino: Ino, size: u64) {
    client.setattr(New, ino, &SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

fn size(client: &Client, ino: Ino) -> u64 {
    client.getattr(ino).unwrap().size
}

/// A file, and its object on the node before the file was cut off.
struct Cut {
    ino: Ino,
    object: PathBuf,
    before: Vec<u8>,
}

impl Cut {
    /// The client makes the file, syncs it, and cuts it off.
    fn by(cluster: &Cluster, client: &Client) -> Cut {
        let ino = client.create(New, ROOT, b"file", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, &pattern(LONG as usize, 1)).unwrap();
        client.fsync(ino).unwrap();
        let object = cluster
            .fragment(LOSER)
            .join("objects/0")
            .join(format!("{:02x}/{ino:016x}", ino.to_le_bytes()[0]));
        let before = fs::read(&object).unwrap();
        resize(client, ino, SHORT);
        client.close(ino, true).unwrap();
        assert_eq!(size(client, ino), SHORT);
        Cut { ino, object, before }
    }

    /// The node loses its power, and that the file was cut off.
    fn lose(&self, cluster: &mut Cluster) {
        assert!(fs::metadata(&self.object).unwrap().len() < self.before.len() as u64);
        cluster.lose_power_and(LOSER, |_| fs::write(&self.object, &self.before).unwrap());
    }

    /// Whoever makes the file longer finds zeros after the size that `stat` told.
    fn check(&self, client: &Client) {
        let begun = Instant::now();
        while size(client, self.ino) == SHORT && begun.elapsed() < BOUND {
            std::thread::sleep(Duration::from_millis(20));
        }
        let told = usize::try_from(size(client, self.ino)).unwrap();
        resize(client, self.ino, 2 * LONG);
        let mut bytes = vec![7; 2 * LONG as usize];
        assert_eq!(client.read(self.ino, 0, &mut bytes), Ok(bytes.len()));
        let wrong = bytes[told..].iter().position(|byte| *byte != 0);
        assert_eq!(wrong, None, "the file was {told} bytes long; what was cut off is back after that");
    }
}

#[test]
fn a_file_whose_truncation_a_node_lost_is_as_long_as_it_reads_also_when_its_client_is_gone() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    let cut = Cut::by(&cluster, &client);
    drop(client);
    cut.lose(&mut cluster);
    cut.check(&cluster.client());
}

#[test]
fn the_same_where_the_home_was_started_again_before() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    let cut = Cut::by(&cluster, &client);
    drop(client);
    cluster.servers[HOME].shutdown();
    cut.lose(&mut cluster);
    let address = cluster.target.nodes[HOME].tcp.clone();
    cluster.servers[HOME] = cluster.serve(HOME, &address);
    cut.check(&cluster.client());
}

#[test]
fn who_looks_at_many_files_sees_what_a_node_lost_of_them() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    let cut = Cut::by(&cluster, &client);
    cut.lose(&mut cluster);
    // Whoever uses the node hears of the loss.
    client.read(cut.ino, 0, &mut vec![0; cut.before.len() * 3]).unwrap();
    let (attr, _) = client.survey(&[cut.ino]).remove(0);
    assert_ne!(attr.unwrap().size, SHORT, "the home was not told first");
}

/// Whether the home knows how long this file is, as it tells node `fragment`, which may be lost.
fn is_settled(cluster: &Cluster, fragment: FragmentIndex, ino: Ino) -> bool {
    let claim = Claim {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        fragment: FragmentIndex(0),
        session: SessionId([7; 16]),
    };
    let key = member();
    // It may be just starting.
    let Ok((mut connection, _)) = dial(&cluster.target.nodes[HOME], Via::Tcp, &key, &claim) else {
        return false;
    };
    connection.send(1, &Request::ListMeant { fragment, after: ino.before() }, &[]).unwrap();
    let Reply::Objects(meant) = connection.receive::<Reply>().unwrap().message else { panic!("no list") };
    meant.iter().all(|(other, length)| *other != ino || *length < UNKNOWN_BYTES)
}

#[test]
fn after_its_home_lost_power_a_file_needs_only_the_nodes_that_it_has_data_on() {
    let mut cluster = Cluster::start_with_grace(3, 200);
    cluster.target.grace_ms = 300;
    let client = cluster.client();
    let inos: Vec<Ino> = (0..12)
        .map(|n| {
            let ino = client.create(New, ROOT, format!("f{n}").as_bytes(), 0o644, &ME).unwrap().ino;
            client.write(ino, 0, &pattern(SHORT as usize, n)).unwrap();
            client.fsync(ino).unwrap();
            client.close(ino, true).unwrap();
            ino
        })
        .collect();
    let away = |ino: &Ino| client.place(*ino, 0, 1).unwrap().0 != FragmentIndex(LOSER as u32);
    let elsewhere: Vec<Ino> = inos.iter().copied().filter(away).collect();
    assert!(!elsewhere.is_empty() && elsewhere.len() < inos.len());
    drop(client);
    cluster.lose_power(HOME);
    let begun = Instant::now();
    while !inos.iter().all(|ino| is_settled(&cluster, FragmentIndex(LOSER as u32), *ino)) {
        assert!(begun.elapsed() < BOUND, "the home never knows the sizes again");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Durably: also its next life does.
    cluster.servers[HOME].shutdown();
    let tcp = cluster.target.nodes[HOME].tcp.clone();
    cluster.servers[HOME] = cluster.serve(HOME, &tcp);
    let client = cluster.client();
    cluster.servers[LOSER].shutdown();
    for ino in elsewhere {
        assert_eq!(client.getattr(ino).map(|attr| attr.size), Ok(SHORT));
    }
    assert_eq!(client.readdir(ROOT, 0).map(|entries| entries.len()), Ok(12));
}

#[test]
fn space_of_a_removed_file_that_a_node_brings_back_after_its_power_loss_is_freed_again() {
    // What is removed is made durable some time later: on a machine that takes longer than that, once more.
    for n in 0..10 {
        let mut cluster = Cluster::start(3, 64 << 20);
        let client = cluster.client();
        let ino = client.create(New, ROOT, b"file", 0o644, &ME).unwrap().ino;
        client.write(ino, 0, &pattern(LONG as usize, n)).unwrap();
        client.fsync(ino).unwrap();
        client.close(ino, true).unwrap();
        let object = cluster
            .fragment(LOSER)
            .join("objects/0")
            .join(format!("{:02x}/{ino:016x}", ino.to_le_bytes()[0]));
        let before = fs::read(&object).unwrap();
        let removed = Instant::now();
        client.unlink(New, ROOT, b"file").unwrap();
        while std::fs::symlink_metadata(&object).is_ok() {
            assert!(removed.elapsed() < BOUND, "its space is not freed");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut took = Duration::ZERO;
        cluster.lose_power_and(LOSER, |_| {
            took = removed.elapsed();
            fs::write(&object, &before).unwrap();
        });
        if took > Duration::from_millis(800) {
            continue;
        }
        let begun = Instant::now();
        while std::fs::symlink_metadata(&object).is_ok() {
            assert!(begun.elapsed() < BOUND, "the file is gone, and its space is taken for good");
            std::thread::sleep(Duration::from_millis(20));
        }
        return;
    }
    panic!("this machine is too slow");
}
