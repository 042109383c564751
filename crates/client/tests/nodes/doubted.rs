//! A node has lost its checksums, and its mirror comes later than who wants to read.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use client::{Client, Contents, Names};
use model::{FragmentIndex, Ino, InstanceId};
use rustix::io::Errno;
use wire::control::VolumeKind;
use wire::data::{Reply, Request, Time};
use wire::node::FsckSpec;

use crate::keeper::{Keeper, empty_mirror};
use crate::repairs::{flip_at, primary, seal, while_stopped};
use crate::restored::{BYTES, DAMAGES, await_mirrors, read, remove, scrub, wait_until, write};
use crate::support::{Cluster, pattern};

/// A file that is written to while it is in doubt, beside those that are damaged.
const WRITTEN: usize = DAMAGES.len();

/// Where the first bytes that node 1 has of a file are in it.
fn own(client: &Client, ino: Ino) -> u64 {
    let is_there =
        |at: &u64| client.place(ino, *at, 1).is_some_and(|(fragment, _)| fragment == FragmentIndex(1));
    (0..BYTES as u64).step_by(65536).find(is_there).unwrap()
}

/// A buffer with files that are damaged on node 1, which has lost its checksums, and whose mirror's node is stopped.
fn in_doubt() -> (Cluster, Vec<Ino>) {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
    let client = cluster.client();
    let names = DAMAGES.iter().map(|(name, _)| *name).chain(["written"]).enumerate();
    let inos: Vec<Ino> = names.map(|(k, name)| write(&client, name, BYTES, k)).collect();
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    seal(&cluster);
    cluster.servers[2].shutdown();
    // It has no metadata, and is served before its mirror is there.
    while_stopped(&mut cluster, 1, |cluster| {
        remove(&cluster.fragment(1).join("sums/0.log"));
        DAMAGES.iter().zip(&inos).for_each(|((_, damage), ino)| damage(&primary(cluster, 1, *ino)));
        flip_at(&primary(cluster, 1, inos[WRITTEN]), 5000);
    });
    (cluster, inos)
}

#[test]
fn what_lost_its_checksums_is_compared_with_its_mirror_before_anybody_gets_its_bytes() {
    let (mut cluster, inos) = in_doubt();
    let client = cluster.client();
    client.open(inos[WRITTEN], true).unwrap();
    let uses = |k: usize| {
        let (ino, at) = (inos[k], own(&client, inos[k]));
        let mut expected = pattern(BYTES, k)[usize::try_from(at).unwrap()..][..8192].to_vec();
        if k == WRITTEN {
            client.write(ino, at, b"anew").unwrap();
            expected[..4].copy_from_slice(b"anew");
        }
        let mut bytes = vec![0; 8192];
        let read = client.read(ino, at, &mut bytes).unwrap();
        assert!(bytes[..read] == expected, "file {k}");
    };
    std::thread::scope(|scope| {
        let uses = &uses;
        (0..inos.len()).for_each(|k| drop(scope.spawn(move || uses(k))));
        // Long enough for who does not wait to be answered.
        std::thread::sleep(Duration::from_millis(300));
        let tcp = cluster.target.nodes[2].tcp.clone();
        cluster.servers[2] = cluster.serve(2, &tcp);
    });
    await_mirrors(&cluster);
    client.close(inos[WRITTEN], true).unwrap();
    seal(&cluster);
}

/// A node in the place of node 2, which has begun to give an object and hangs up for good in the midst of that. What it
/// has given, and how often it was found.
struct Dying {
    _keeper: Keeper,
    given: Arc<AtomicU64>,
    met: Arc<AtomicU64>,
}

fn dying(cluster: &Cluster, ino: Ino, bytes: Vec<u8>) -> Dying {
    let met = Arc::new(AtomicU64::new(meetings(&cluster.fragment(2), None)));
    let given = Arc::new(AtomicU64::new(0));
    let (counted, meeting) = (given.clone(), met.clone());
    let answer = move |request: &Request| {
        let size = bytes.len() as u64;
        let reply = match request {
            _ if counted.load(Ordering::Relaxed) > 0 => return None,
            Request::ListObjects { after } if *after < ino => Reply::Objects(vec![(ino, size)]),
            Request::DescribeMirrored { .. } => {
                Reply::Mirrored { size, mtime: Time::default(), sealed: false, unverified: false }
            }
            Request::NextData { offset, .. } => {
                Reply::Range(Some((*offset, size)).filter(|(start, end)| start < end))
            }
            Request::Read { offset: 0, .. } => return Some((Reply::Data, bytes[..4096].to_vec())),
            Request::Read { .. } => {
                counted.store(4096, Ordering::Relaxed);
                return None;
            }
            other => empty_mirror(other, &meeting),
        };
        Some((reply, Vec::new()))
    };
    Dying { _keeper: Keeper::start(&cluster.target.nodes[2].tcp, Arc::new(answer)), given, met }
}

/// How often a mirror knows to have been found; it is told to have been so often.
pub fn meetings(folder: &Path, set: Option<u64>) -> u64 {
    let path = folder.join("mirrors/0.json");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once("\"meeting\":").unwrap();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap();
    let met = rest[..digits].parse().unwrap();
    if let Some(set) = set {
        // As whoever changes the file by hand has to.
        let (head, sum) = before.split_once("\"crc32c\":\"").unwrap();
        let unsummed = format!("{head}{}", &sum["00000000\",".len()..]);
        fs::write(&path, format!("{unsummed}\"meeting\":{set}{}", &rest[digits..])).unwrap();
    }
    met
}

#[test]
fn an_object_that_is_taken_in_part_is_used_by_nobody_and_is_taken_on_after_a_power_loss() {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
    let client = cluster.client();
    let ino = write(&client, "file", BYTES, 1);
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    let at = own(&client, ino);
    drop(client);
    cluster.servers[2].shutdown();
    let object = primary(&cluster, 1, ino);
    let bytes = fs::read(&object).unwrap();
    cluster.servers[1].shutdown();
    remove(&object);
    remove(&cluster.fragment(1).join("sums/0.log"));
    let dying = dying(&cluster, ino, bytes.clone());
    let tcp = cluster.target.nodes[1].tcp.clone();
    cluster.servers[1] = cluster.serve(1, &tcp);
    wait_until("it is taken in part", || dying.given.load(Ordering::Relaxed) > 0);
    let client = cluster.client();
    let is_refused = || assert_eq!(client.read(ino, at, &mut [0; 8192]), Err(Errno::IO));
    is_refused();
    drop(cluster.servers[1].fsck(&InstanceId::literal("i1"), FsckSpec { repair: true }).unwrap());
    is_refused();
    assert_eq!(scrub(&cluster, 1).unverified.len(), 1, "it is listed");
    let met = dying.met.load(Ordering::Relaxed);
    drop(dying);
    drop(client);
    cluster.lose_power(1);
    meetings(&cluster.fragment(2), Some(met));
    let tcp = cluster.target.nodes[2].tcp.clone();
    cluster.servers[2] = cluster.serve(2, &tcp);
    await_mirrors(&cluster);
    assert!(fs::read(&object).unwrap() == bytes, "it is whole");
    assert!(read(&cluster.client(), ino, BYTES) == Ok(pattern(BYTES, 1)));
}
