//! A node is lost for good, and its mirror is damaged: what the mirror has not as it was is lost by name, and nothing
//! else is.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use client::{Client, ROOT};
use rustix::io::Errno;
use wire::control::VolumeKind;
use wire::node::{FragmentSpec, ScrubSpec, ScrubStatus};

use crate::support::{Cluster, ME, pattern};

/// Longer than anything here is allowed to wait.
const BOUND: Duration = Duration::from_secs(30);

/// Over all nodes, with an end on one of them.
pub const BYTES: usize = 500_000;

pub fn wait_until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < BOUND, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn await_mirrors(cluster: &Cluster) {
    let is_whole = || {
        let mut fragments = cluster.servers.iter().flat_map(|server| server.fragments());
        fragments.all(|fragment| !fragment.starting && fragment.mirrors.iter().all(|mirror| mirror.whole))
    };
    wait_until("all mirrors are whole", is_whole);
}

/// Scrubs what node `n` has: everything that it has is sealed then.
pub fn scrub(cluster: &Cluster, n: usize) -> ScrubStatus {
    cluster.servers[n].scrub("i1", Some(ScrubSpec::default())).unwrap();
    let status = || cluster.servers[n].scrub("i1", None).unwrap();
    wait_until("scrubbed", || !status().running);
    status()
}

pub fn write(client: &Client, name: &str, len: usize, seed: usize) -> u64 {
    let ino = client.create(ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(len, seed)).unwrap();
    client.close(ino, true).unwrap();
    ino
}

pub fn read(client: &Client, ino: u64, len: usize) -> client::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut done = 0;
    while done < len {
        match client.read(ino, done as u64, &mut bytes[done..])? {
            0 => break,
            more => done += more,
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}

/// Where node `n`'s object of a file is in its mirror.
pub fn mirror(cluster: &Cluster, n: usize, ino: u64) -> PathBuf {
    let keeper = cluster.fragment((n + 1) % cluster.servers.len());
    keeper.join(format!("mirror/0/{:02x}/{ino:016x}", ino & 0xff))
}

pub fn remove(object: &Path) {
    fs::remove_file(object).unwrap();
}

pub fn cut_off(object: &Path) {
    OpenOptions::new().write(true).open(object).unwrap().set_len(8192).unwrap();
}

fn put_zeros_at_the_end(object: &Path) {
    let length = fs::metadata(object).unwrap().len();
    cut_off(object);
    OpenOptions::new().write(true).open(object).unwrap().set_len(length).unwrap();
}

pub fn flip(object: &Path) {
    let file: File = OpenOptions::new().read(true).write(true).open(object).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    file.write_all_at(&[byte[0] ^ 4], 5000).unwrap();
}

/// What becomes of an object, in words and in deed.
pub type Damage = (&'static str, fn(&Path));

pub const DAMAGES: [Damage; 4] =
    [("removed", remove), ("cut-off", cut_off), ("zeros", put_zeros_at_the_end), ("flipped", flip)];

/// Node `n` is lost, after damage to these objects of its mirror, and replaced.
fn lose(cluster: &mut Cluster, n: usize, stopped: bool, (bad, young): (&[u64; 4], u64)) {
    let (keeper, spec) = ((n + 1) % 3, cluster.spec(n));
    let spec = FragmentSpec { capacity_bytes: 64 << 20, mirrored: true, ..spec };
    cluster.servers[n].shutdown();
    if stopped {
        cluster.servers[keeper].shutdown();
    }
    for ((_, damage), ino) in DAMAGES.iter().zip(bad) {
        damage(&mirror(cluster, n, *ino));
    }
    remove(&mirror(cluster, n, young));
    if stopped {
        let tcp = cluster.target.nodes[keeper].tcp.clone();
        cluster.servers[keeper] = cluster.serve(keeper, &tcp);
    }
    cluster.replace(n, &spec);
    wait_until("served", || cluster.servers[n].fragments().iter().all(|one| !one.starting));
}

fn assert_restored(
    cluster: &Cluster,
    (n, stopped): (usize, bool),
    good: &[u64],
    (bad, young): (&[u64; 4], u64),
) {
    let what = format!("node {n}, its mirror's stopped: {stopped}");
    let client = cluster.client();
    for (k, ino) in good.iter().enumerate() {
        assert!(read(&client, *ino, BYTES) == Ok(pattern(BYTES, k)), "{what}: good-{k}");
    }
    // Where the home was lost as well, nobody knows that.
    let removed = [("young", young, 60_000)].into_iter().filter(|_| n != 0);
    let lost = DAMAGES.iter().zip(bad).map(|((name, _), ino)| (*name, *ino, BYTES)).chain(removed);
    for (name, ino, len) in lost {
        match read(&client, ino, len) {
            // Those that were removed were open, and are all there.
            Ok(bytes) => {
                let may_be_there = !stopped && ["removed", "young"].contains(&name);
                assert!(may_be_there && bytes == pattern(len, 9), "{what}: {name} was read");
            }
            Err(errno) => assert_eq!(errno, Errno::IO, "{what}: {name}"),
        }
    }
}

/// Node `n` is lost, after damage to some objects of its mirror, whose node runs on or was stopped meanwhile.
fn loses(n: usize, stopped: bool) {
    let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
    let (keeper, what) = ((n + 1) % 3, format!("node {n}, its mirror's stopped: {stopped}"));
    let client = cluster.client();
    let good: Vec<u64> = (0..4).map(|k| write(&client, &format!("good-{k}"), BYTES, k)).collect();
    let bad = DAMAGES.map(|(name, _)| write(&client, name, BYTES, 9));
    client.sync_metadata().unwrap();
    await_mirrors(&cluster);
    assert_eq!(scrub(&cluster, keeper).damaged, []);
    // Too young to be sealed, but the home knows how long it was. Each of them is on one node.
    let mut young = (0..64).map(|k| write(&client, &format!("young-{k}"), 60_000, 9));
    let young = young.find(|ino| std::fs::metadata(mirror(&cluster, n, *ino)).is_ok()).unwrap();
    client.sync_metadata().unwrap();

    lose(&mut cluster, n, stopped, (&bad, young));

    assert_restored(&cluster, (n, stopped), &good, (&bad, young));
    let client = cluster.client();
    // What is removed, or written anew, is good again, and no longer in the mirror's way.
    DAMAGES.iter().for_each(|(name, _)| client.unlink(ROOT, name.as_bytes()).unwrap());
    let again = write(&client, DAMAGES[0].0, BYTES, 5);
    assert!(read(&client, again, BYTES) == Ok(pattern(BYTES, 5)), "{what}: written anew");
    await_mirrors(&cluster);
}

#[test]
fn what_a_mirror_has_not_as_it_was_is_lost_by_name_and_the_rest_is_restored() {
    // The second node has the names elsewhere, the first has them itself.
    for (n, stopped) in [(1, true), (1, false), (0, true), (0, false)] {
        loses(n, stopped);
    }
}
