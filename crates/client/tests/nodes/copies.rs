//! The second copy of the metadata log, on the node after the home: it takes the log's place, or the namespace is
//! refused.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use client::{Client, Names, ROOT, RequestId::New};
use rustix::io::Errno;
use wire::data::dial::{Via, dial};
use wire::data::hello::Claim;
use wire::data::{PAYLOAD_BYTES_MAX, Reply, Request, member};
use wire::node::{FragmentSpec, FragmentStatus};

use crate::keeper::Keeper;
use crate::support::{Cluster, ME, member};

/// The home of the namespace, and the node that keeps the copy of its log.
pub const HOME: usize = 0;
pub const KEEPER: usize = 1;

/// Longer than any start or sync is allowed to wait.
const BOUND: Duration = Duration::from_secs(20);

pub fn log(cluster: &Cluster) -> PathBuf {
    cluster.fragment(HOME).join("namespaces/0/meta.log")
}

/// Makes names and syncs them.
fn make(client: &Client, names: std::ops::Range<usize>) {
    for n in names {
        let made = client.create(New, ROOT, format!("name-{n}").as_bytes(), 0o644, &ME).unwrap();
        client.close(made.ino, true).unwrap();
    }
    client.sync_metadata().unwrap();
}

fn names(client: &Client) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let page = client.readdir(ROOT, cookie).unwrap();
        let Some(last) = page.last() else { break };
        cookie = last.cookie;
        names.extend(page.iter().map(|entry| String::from_utf8(entry.name.clone()).unwrap()));
    }
    names.sort_by_key(|name| name[5..].parse::<usize>().unwrap());
    names
}

fn expected(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("name-{n}")).collect()
}

pub fn stop(cluster: &Cluster, n: usize) {
    cluster.servers[n].shutdown();
}

pub fn start(cluster: &mut Cluster, n: usize) {
    let address = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &address);
}

fn status(cluster: &Cluster) -> FragmentStatus {
    cluster.servers[HOME].fragments().remove(0)
}

/// Waits until the home says so of itself.
pub fn await_status(cluster: &Cluster, what: &str, is: impl Fn(&FragmentStatus) -> bool) {
    let begun = Instant::now();
    while !is(&status(cluster)) {
        assert!(begun.elapsed() < BOUND, "{what}: {:?}", status(cluster));
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn await_two_copies(cluster: &Cluster) {
    await_status(cluster, "two copies", |status| {
        status.copies.iter().any(|copy| copy.whole && copy.behind_bytes == 0)
    });
}

/// Cuts the log off where an entry ends, about in its middle, and the mark with it: what is left is a whole log.
pub fn cut(log: &Path) {
    let bytes = fs::read(log).unwrap();
    let mut at = 24;
    while at < bytes.len() / 2 {
        at += 16 + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    }
    fs::write(log, &bytes[..at]).unwrap();
    fs::remove_file(log.with_file_name("meta.mark")).unwrap();
}

fn damage(log: &Path) {
    let mut bytes = fs::read(log).unwrap();
    // What the first entry says, and not how long it is: `cut` goes by that.
    bytes[24 + 16] ^= 1;
    fs::write(log, bytes).unwrap();
}

/// What becomes of a log, in words and in deed.
type Loss = (&'static str, fn(&Path));

const LOSSES: [Loss; 5] = [
    ("removed", |log| fs::remove_file(log).unwrap()),
    ("removed with its folder", |log| fs::remove_dir_all(log.parent().unwrap()).unwrap()),
    ("damaged", damage),
    ("cut off, with its mark", cut),
    ("overwritten", |log| fs::write(log, b"something else").unwrap()),
];

#[test]
fn a_metadata_log_that_is_lost_comes_back_from_the_copy_on_another_node() {
    let mut cluster = Cluster::start(3, 64 << 20);
    for (round, (what, lose)) in (1..).zip(LOSSES) {
        make(&cluster.client(), 50 * (round - 1)..50 * round);
        stop(&cluster, HOME);
        lose(&log(&cluster));
        start(&mut cluster, HOME);
        assert_eq!(names(&cluster.client()), expected(50 * round), "{what}");
    }
}

#[test]
fn a_log_that_is_lost_is_refused_by_name_until_the_node_with_the_copy_is_there() {
    let mut cluster = Cluster::start(3, 64 << 20);
    make(&cluster.client(), 0..50);
    stop(&cluster, HOME);
    stop(&cluster, KEEPER);
    damage(&log(&cluster));
    start(&mut cluster, HOME);
    await_status(&cluster, "refused", |status| {
        let error = status.error.clone().unwrap_or_default();
        error.contains("meta.log") && error.contains("copy on node n1")
    });
    start(&mut cluster, KEEPER);
    await_status(&cluster, "restored", |status| status.error.is_none());
    assert_eq!(names(&cluster.client()), expected(50));
}

#[test]
fn while_the_node_with_the_copy_is_away_work_goes_on_and_its_old_copy_is_never_used() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let client = cluster.client();
    make(&client, 0..50);
    await_two_copies(&cluster);
    stop(&cluster, KEEPER);
    let begun = Instant::now();
    make(&client, 50..100);
    assert!(begun.elapsed() < BOUND, "a sync waited for {:?}", begun.elapsed());
    let again = Instant::now();
    make(&client, 100..110);
    assert!(again.elapsed() < Duration::from_secs(2), "it is waited for once, not {:?}", again.elapsed());
    assert!(
        status(&cluster).copies.iter().all(|copy| !copy.whole && copy.node == "n1" && copy.behind_bytes > 0)
    );
    drop(client);

    stop(&cluster, HOME);
    let (log, aside) = (log(&cluster), cluster.fragment(HOME).join("aside"));
    fs::copy(&log, &aside).unwrap();
    damage(&log);
    start(&mut cluster, KEEPER);
    start(&mut cluster, HOME);
    await_status(&cluster, "refused", |status| {
        status.error.as_ref().is_some_and(|error| error.contains("confirmed changes while that one was away"))
    });
    stop(&cluster, HOME);
    fs::copy(&aside, &log).unwrap();
    start(&mut cluster, HOME);
    assert_eq!(names(&cluster.client()), expected(110));
    await_two_copies(&cluster);

    stop(&cluster, HOME);
    fs::remove_file(&log).unwrap();
    start(&mut cluster, HOME);
    assert_eq!(names(&cluster.client()), expected(110), "the copy was brought up to date");
}

#[test]
fn a_copy_that_is_damaged_or_cut_off_takes_no_logs_place() {
    let mut cluster = Cluster::start(3, 64 << 20);
    make(&cluster.client(), 0..50);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    let (log, copy) = (log(&cluster), cluster.fragment(KEEPER).join("copies/0/meta.log"));
    let whole = fs::read(&copy).unwrap();
    for lose in [damage, cut] {
        lose(&copy);
        fs::remove_file(&log).unwrap_or_default();
        start(&mut cluster, HOME);
        await_status(&cluster, "refused", |status| {
            status.error.as_ref().is_some_and(|error| error.contains("on node n1"))
        });
        stop(&cluster, HOME);
    }
    assert!(fs::metadata(&log).is_err(), "it is kept as it is");
    fs::write(&copy, whole).unwrap();
    start(&mut cluster, HOME);
    assert_eq!(names(&cluster.client()), expected(50));
}

#[test]
fn a_copy_that_knows_more_than_a_log_that_is_served_already_is_kept_and_the_status_says_so() {
    let mut cluster = Cluster::start(3, 64 << 20);
    make(&cluster.client(), 0..50);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    stop(&cluster, KEEPER);
    cut(&log(&cluster));
    start(&mut cluster, HOME);
    // Nothing seems wrong with the log, and nobody else can be asked.
    await_status(&cluster, "served", |status| !status.copies.is_empty());
    start(&mut cluster, KEEPER);
    await_status(&cluster, "known to be cut off", |status| {
        let error = status.copies.first().and_then(|copy| copy.error.clone());
        error.is_some_and(|error| error.contains("its end was lost"))
    });
    stop(&cluster, HOME);
    start(&mut cluster, HOME);
    assert_eq!(names(&cluster.client()), expected(50));
}

#[test]
fn a_home_that_is_given_its_copy_slowly_holds_up_no_other_buffer() {
    let mut cluster = Cluster::start(2, 64 << 20);
    make(&cluster.client(), 0..50);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    stop(&cluster, KEEPER);
    damage(&log(&cluster));
    let (asks, asked) = channel();
    let slow = Keeper::start(
        &cluster.target.nodes[KEEPER].tcp,
        Arc::new(move |request| match request {
            Request::FindCopy => Some((Reply::Copy { length: 1 << 30, confirmed: 0 }, Vec::new())),
            Request::ReadCopy { .. } => {
                asks.send(()).unwrap_or_default();
                std::thread::sleep(Duration::from_millis(10));
                Some((Reply::Data, vec![0]))
            }
            _ => None,
        }),
    );
    start(&mut cluster, HOME);
    asked.recv_timeout(BOUND).expect("the home asks for the copy");
    let (does, done) = channel();
    let other = FragmentSpec { instance: "i2".parse().unwrap(), peers: Vec::new(), ..cluster.spec(HOME) };
    let server = cluster.servers[HOME].clone();
    std::thread::spawn(move || {
        server.create_fragment(&other).unwrap();
        server.delete_fragment(&other.instance).unwrap();
        does.send(()).unwrap();
    });
    done.recv_timeout(BOUND).expect("another buffer comes and goes meanwhile");
    drop(slow);
    start(&mut cluster, KEEPER);
    await_status(&cluster, "restored", |status| !status.copies.is_empty());
    assert_eq!(names(&cluster.client()), expected(50));
}

#[test]
fn a_copy_that_the_disk_does_not_take_at_first_takes_the_logs_place_later() {
    let mut cluster = Cluster::start(2, 64 << 20);
    make(&cluster.client(), 0..50);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    damage(&log(&cluster));
    let in_the_way = log(&cluster).with_file_name("meta.log.new");
    fs::create_dir(&in_the_way).unwrap();
    start(&mut cluster, HOME);
    await_status(&cluster, "refused", |status| {
        status.error.as_ref().is_some_and(|error| error.contains("it is tried again"))
    });
    fs::remove_dir(&in_the_way).unwrap();
    await_status(&cluster, "restored", |status| status.error.is_none());
    assert_eq!(names(&cluster.client()), expected(50));
}

#[test]
fn what_came_of_a_copy_whose_connection_broke_takes_no_room() {
    let cluster = Cluster::start(2, 64 << 20);
    make(&cluster.client(), 0..50);
    await_two_copies(&cluster);
    stop(&cluster, HOME);
    let (address, key) = (&cluster.target.nodes[KEEPER], member());
    let session = member::Member { role: member::Role::Copying, fragment: 0.into(), term: 0 }.session();
    let claim = Claim { instance: "i1".parse().unwrap(), namespace: 0, fragment: 1.into(), session };
    let (mut connection, _) = dial(address, Via::Tcp, &key, &claim).unwrap();
    let requests = [Request::BeginCopy, Request::AppendCopy { offset: 0, confirmed: 0 }];
    for (id, request) in (1..).zip(requests) {
        let payload = if id == 1 { Vec::new() } else { vec![7; PAYLOAD_BYTES_MAX] };
        connection.send(id, &request, &payload).unwrap();
        assert_eq!(connection.receive::<Reply>().unwrap().message, Reply::Done);
    }
    let (draft, begun) = (cluster.fragment(KEEPER).join("copies/0/meta.log.new"), Instant::now());
    assert_eq!(fs::metadata(&draft).unwrap().len(), PAYLOAD_BYTES_MAX as u64);
    drop(connection);
    while fs::metadata(&draft).is_ok() {
        assert!(begun.elapsed() < BOUND, "it is there still");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(fs::metadata(draft.with_file_name("meta.log")).is_ok(), "the copy that was whole stays");
}

#[test]
fn a_full_disk_of_the_node_with_the_copy_is_not_filled_again_and_again() {
    let mut cluster = Cluster::start(2, 64 << 20);
    stop(&cluster, KEEPER);
    let begun = Arc::new(AtomicUsize::new(0));
    let (begins, full) = (begun.clone(), Reply::Failed(Errno::NOSPC.raw_os_error()));
    let keeper = Keeper::start(
        &cluster.target.nodes[KEEPER].tcp,
        Arc::new(move |request| {
            let reply = match request {
                Request::FindCopy => Reply::Copy { length: 0, confirmed: 0 },
                Request::BeginCopy => {
                    begins.fetch_add(1, Ordering::Relaxed);
                    Reply::Done
                }
                _ => full.clone(),
            };
            Some((reply, Vec::new()))
        }),
    );
    await_status(&cluster, "the disk is full", |status| {
        let error = status.copies.first().and_then(|copy| copy.error.clone());
        error.is_some_and(|error| error.contains("No space left"))
    });
    // As after any other error it would be tried again by then.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(begun.load(Ordering::Relaxed), 1, "how often it was tried");
    drop(keeper);
    start(&mut cluster, KEEPER);
    await_two_copies(&cluster);
}
