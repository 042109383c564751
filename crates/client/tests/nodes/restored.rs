//! A node is lost for good, and its mirror is damaged: what the mirror has not as it was is lost by name, and nothing
//! else is.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Contents, Names, ROOT, RequestId::New};
use model::{Ino, InstanceId};
use rustix::io::Errno;
use wire::control::VolumeKind;
use wire::data::message::Change;
use wire::data::{Reply, Request};
use wire::node::{FragmentSpec, ScrubSpec, ScrubStatus};

use crate::keeper::Keeper;
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
    cluster.servers[n].scrub(&InstanceId::literal("i1"), Some(ScrubSpec::default())).unwrap();
    let status = || cluster.servers[n].scrub(&InstanceId::literal("i1"), None).unwrap();
    wait_until("scrubbed", || !status().running);
    status()
}

pub fn write(client: &Client, name: &str, len: usize, seed: usize) -> Ino {
    let ino = client.create(New, ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(len, seed)).unwrap();
    client.close(ino, true).unwrap();
    ino
}

pub fn read(client: &Client, ino: Ino, len: usize) -> client::Result<Vec<u8>> {
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
pub fn mirror(cluster: &Cluster, n: usize, ino: Ino) -> PathBuf {
    let keeper = cluster.fragment((n + 1) % cluster.servers.len());
    keeper.join(format!("mirror/0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]))
}

/// Node `n`'s own object of a file.
fn object(cluster: &Cluster, n: usize, ino: Ino) -> PathBuf {
    cluster.fragment(n).join(format!("objects/0/{:02x}/{ino:016x}", ino.to_le_bytes()[0]))
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
fn lose(cluster: &mut Cluster, n: usize, stopped: bool, (bad, young): (&[Ino; 4], Ino)) {
    let (keeper, spec) = ((n + 1) % 3, cluster.spec(n));
    let mut spec = FragmentSpec { capacity_bytes: 64 << 20, ..spec };
    spec.behaviour.mirrored = true;
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
    good: &[Ino],
    (bad, young): (&[Ino; 4], Ino),
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
    let good: Vec<Ino> = (0..4).map(|k| write(&client, &format!("good-{k}"), BYTES, k)).collect();
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
    DAMAGES.iter().for_each(|(name, _)| client.unlink(New, ROOT, name.as_bytes()).unwrap());
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

/// Copies a folder with all that is in it.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Node `n` is stopped, `act` is done to its folder, and it is started again.
fn while_stopped(cluster: &mut Cluster, n: usize, act: impl FnOnce(&Path)) {
    cluster.servers[n].shutdown();
    act(&cluster.fragment(n));
    let tcp = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &tcp);
    await_mirrors(cluster);
}

#[test]
fn what_an_old_copy_of_a_nodes_folder_has_is_put_over_nothing_newer() {
    // The first has the names itself, the second has them elsewhere.
    for n in [0, 1] {
        let mut cluster = Cluster::start_mirrored(VolumeKind::Directory, 3, 64 << 20);
        let backup = tempfile::tempdir().unwrap();
        let client = cluster.client();
        let (changed, removed) = (write(&client, "changed", BYTES, 1), write(&client, "removed", BYTES, 2));
        client.sync_metadata().unwrap();
        await_mirrors(&cluster);
        while_stopped(&mut cluster, n, |folder| copy_all(folder, backup.path()));
        client.open(changed, true).unwrap();
        client.write(changed, 0, &pattern(BYTES, 3)).unwrap();
        client.close(changed, true).unwrap();
        client.unlink(New, ROOT, b"removed").unwrap();
        let new = write(&client, "new", BYTES, 4);
        [changed, new].iter().for_each(|ino| client.fsync(*ino).unwrap());
        client.sync_metadata().unwrap();
        await_mirrors(&cluster);
        let objects = |cluster: &Cluster, ino: Ino| -> Vec<Option<Vec<u8>>> {
            let own = |part| object(cluster, part, ino);
            let paths = (0..3).flat_map(|part| [own(part), mirror(cluster, part, ino)]);
            paths.map(|path| fs::read(path).ok()).collect()
        };
        let is_gone = |cluster: &Cluster| objects(cluster, removed).iter().all(Option::is_none);
        wait_until("the removed file's space is free", || is_gone(&cluster));
        let were = [changed, new].map(|ino| objects(&cluster, ino));
        drop(client);
        while_stopped(&mut cluster, n, |folder| {
            fs::remove_dir_all(folder).unwrap();
            copy_all(backup.path(), folder);
        });
        let client = cluster.client();
        assert!(read(&client, changed, BYTES) == Ok(pattern(BYTES, 3)), "node {n}: what was changed since");
        assert!(read(&client, new, BYTES) == Ok(pattern(BYTES, 4)), "node {n}: what was made since");
        // What it keeps of another's part is older, too, which that sees when it finds it.
        wait_until("both copies of each part are as they were", || {
            [changed, new].map(|ino| objects(&cluster, ino)) == were && is_gone(&cluster)
        });
    }
}

#[test]
fn a_part_that_is_served_and_finds_itself_older_than_its_mirror_puts_nothing_over_it() {
    let cluster = Cluster::start_mirrored(VolumeKind::Directory, 2, 64 << 20);
    let client = cluster.client();
    // On the first node, whose mirror is on the second.
    let ino = write(&client, "file", 60 << 10, 1);
    await_mirrors(&cluster);
    client.open(ino, true).unwrap();
    cluster.servers[1].shutdown();
    let changed = Arc::new(AtomicBool::new(false));
    let changes = changed.clone();
    let newer = move |request: &Request| {
        if request.changes() != Change::None || matches!(request, Request::Destroy { .. }) {
            changes.store(true, Ordering::Relaxed);
        }
        let reply = match request {
            Request::FindMeeting => Reply::Meeting(1000),
            Request::FindMirror => {
                Reply::Mirror { life: 7, whole: true, lacking: Vec::new(), verifier: None }
            }
            _ => Reply::Done,
        };
        Some((reply, Vec::new()))
    };
    let _newer = Keeper::start(&cluster.target.nodes[1].tcp, Arc::new(newer));
    wait_until("status says so", || {
        let mirrors = cluster.servers[0].fragments().remove(0).mirrors;
        mirrors[0].error.as_ref().is_some_and(|error| error.contains("older than its mirror"))
    });
    assert_eq!(client.write(ino, 0, b"over it"), Err(Errno::IO));
    assert!(!changed.load(Ordering::Relaxed));
}
