//! Writes that no sync confirmed and a node lost: the home keeps that until somebody was told, whoever wrote and
//! however the writer ended.

use std::time::{Duration, Instant};

use client::{Client, Contents, Errno, Names, Operations, ROOT, RequestId::New, SetAttr};
use model::{FragmentIndex, Ino};

use crate::support::{Cluster, ME, pattern};

/// The home of the namespace, and another node.
pub(crate) const HOME: usize = 0;
pub(crate) const OTHER: usize = 1;

/// Stripes on every node.
pub(crate) const BYTES: usize = 300_000;

/// The home has what was left synced within this.
const BOUND: Duration = Duration::from_secs(20);

pub(crate) fn made(client: &Client, name: &str) -> Ino {
    let ino = client.create(New, ROOT, name.as_bytes(), 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(BYTES, 1)).unwrap();
    ino
}

pub(crate) fn restart(cluster: &mut Cluster, n: usize) {
    cluster.servers[n].shutdown();
    let address = cluster.target.nodes[n].tcp.clone();
    cluster.servers[n] = cluster.serve(n, &address);
}

/// The files that a stage would refuse now.
pub(crate) fn refused(cluster: &Cluster) -> Vec<Ino> {
    let mut all: Vec<Ino> = cluster.client().lost_writes().unwrap().iter().map(|loss| loss.of.ino).collect();
    all.sort();
    all.dedup();
    all
}

fn await_refused(cluster: &Cluster, wanted: &[Ino], what: &str) {
    let begun = Instant::now();
    while refused(cluster) != wanted {
        assert!(begun.elapsed() < BOUND, "{what}: {:?}", refused(cluster));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn an_fsync_of_another_client_is_an_error_once_for_each_handle_that_was_open() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (writer, other) = (cluster.client(), cluster.client());
    let (ino, safe) = (made(&writer, "file"), made(&writer, "safe"));
    writer.fsync_by(safe, writer.handle()).unwrap();
    other.open(ino, false).unwrap();
    let handles = [other.handle(), other.handle(), other.handle()];
    other.fsync_by(ino, handles[0]).unwrap();
    writer.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    cluster.lose_power(OTHER);
    // The writer hears of it, and is told nothing yet.
    writer.read(ino, 0, &mut vec![0; BYTES]).unwrap();
    writer.getattr(ino).unwrap();
    assert_eq!(other.fsync_by(ino, handles[0]), Err(Errno::IO), "what another client wrote is lost");
    assert_eq!(other.fsync_by(ino, handles[1]), Err(Errno::IO));
    assert_eq!(other.fsync_by(safe, handles[2]), Ok(()), "it was confirmed");
    assert_eq!([other.fsync_by(ino, handles[0]), other.fsync_by(ino, handles[1])], [Ok(()); 2]);
    assert_eq!(other.fsync_by(ino, other.handle()), Ok(()), "opened later, when others had been told");
    // Also by who has only just come.
    let third = cluster.client();
    assert_eq!(third.fsync_by(ino, third.handle()), Ok(()), "opened later, when others had been told");
}

#[test]
fn an_fsync_of_a_folder_by_another_client_is_an_error_once_where_names_were_lost() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (writer, other) = (cluster.client(), cluster.client());
    let handle = other.handle();
    other.sync_metadata_by(handle).unwrap();
    writer.mkdir(New, ROOT, b"folder", 0o755, &ME).unwrap();
    cluster.lose_power(HOME);
    // The first time it hears of it, the second time it tells.
    writer.getattr(ROOT).and_then(|_| writer.getattr(ROOT)).unwrap();
    assert_eq!(other.sync_metadata_by(handle), Err(Errno::IO));
    assert_eq!(other.sync_metadata_by(handle), Ok(()));
    assert_eq!(other.sync_metadata_by(other.handle()), Ok(()), "it was not open then");
}

#[test]
fn what_another_client_lost_of_a_file_is_told_though_its_own_loss_was_told_before() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (one, other) = (cluster.client(), cluster.client());
    let ino = made(&one, "file");
    one.fsync(ino).unwrap();
    other.open(ino, true).unwrap();
    one.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    other.write(ino, 0, &pattern(BYTES, 3)).unwrap();
    let handle = one.handle();
    cluster.lose_power(OTHER);
    assert_eq!(one.fsync_by(ino, handle), Err(Errno::IO));
    one.getattr(ino).unwrap();
    // The other hears of it later, the first time and then tells, and ends.
    other.read(ino, 0, &mut vec![0; BYTES]).unwrap();
    other.getattr(ino).unwrap();
    drop(other);
    assert_eq!(refused(&cluster), [ino]);
    assert_eq!(one.fsync_by(ino, one.handle()), Err(Errno::IO), "of this nobody was told");
    assert_eq!(refused(&cluster), []);
    assert_eq!(one.fsync_by(ino, one.handle()), Ok(()));
}

#[test]
fn an_older_loss_that_was_told_hides_no_newer_one_of_another_node() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (writer, other) = (cluster.client(), cluster.client());
    let ino = made(&writer, "file");
    let first = writer.handle();
    cluster.lose_power(OTHER);
    assert_eq!(writer.fsync_by(ino, first), Err(Errno::IO));
    writer.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    writer.close(ino, true).unwrap();
    cluster.lose_power(2);
    // It hears of that, and then tells.
    writer.read(ino, 0, &mut vec![0; BYTES]).unwrap();
    writer.getattr(ino).unwrap();
    // Handles that are opened later.
    assert_eq!(other.fsync_by(ino, other.handle()), Err(Errno::IO), "nobody was told of this one");
    let mut cluster = Cluster::start(3, 64 << 20);
    let writer = cluster.client();
    let ino = made(&writer, "file");
    cluster.lose_power(OTHER);
    assert_eq!(writer.fsync_by(ino, writer.handle()), Err(Errno::IO));
    writer.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    cluster.lose_power(2);
    writer.read(ino, 0, &mut vec![0; BYTES]).unwrap();
    writer.getattr(ino).unwrap();
    assert_eq!(writer.fsync_by(ino, writer.handle()), Err(Errno::IO), "nor here");
}

#[test]
fn a_loss_is_kept_until_somebody_was_told_or_the_file_is_cut_off_or_removed() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let writer = cluster.client();
    let handle = writer.handle();
    let [told, cut, removed, kept] = ["told", "cut", "removed", "kept"].map(|name| made(&writer, name));
    let safe = made(&writer, "safe");
    writer.fsync(safe).unwrap();
    cluster.lose_power(OTHER);
    writer.read(told, 0, &mut vec![0; BYTES]).unwrap();
    writer.getattr(told).unwrap();
    let mut all = [told, cut, removed, kept];
    all.sort();
    assert_eq!(refused(&cluster), all);
    // Also by a home that was started again.
    restart(&mut cluster, HOME);
    assert_eq!(writer.fsync_by(told, handle), Err(Errno::IO));
    writer.setattr(New, cut, &SetAttr { size: Some(0), ..SetAttr::default() }).unwrap();
    writer.close(removed, true).unwrap();
    writer.unlink(New, ROOT, b"removed").unwrap();
    await_refused(&cluster, &[kept], "only one is left that nobody was told of");
    // What the home knows outlives its power, once it was synced.
    writer.sync_metadata().unwrap();
    cluster.lose_power(HOME);
    assert!(refused(&cluster).contains(&kept));
}

#[test]
fn what_a_client_left_unconfirmed_when_it_ended_and_a_node_lost_then_is_known() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let writer = cluster.client();
    let (ino, safe) = (made(&writer, "file"), made(&writer, "safe"));
    writer.fsync(safe).unwrap();
    // It never hears of it.
    cluster.lose_power(OTHER);
    drop(writer);
    assert_eq!(refused(&cluster), [ino]);
}

#[test]
fn what_a_client_left_unconfirmed_is_synced_then_and_nothing_is_lost_later() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let writer = cluster.client();
    made(&writer, "file");
    writer.mkdir(New, ROOT, b"folder", 0o755, &ME).unwrap();
    drop(writer);
    std::thread::sleep(Duration::from_secs(4));
    for n in [OTHER, HOME] {
        cluster.lose_power(n);
        assert_eq!(refused(&cluster), [Ino(0); 0], "it was synced before node {n} lost its power");
    }
}

#[test]
fn nodes_that_are_started_again_have_lost_nothing() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (writer, other) = (cluster.client(), cluster.client());
    let (ino, handle) = (made(&writer, "file"), other.handle());
    (0..3).for_each(|n| restart(&mut cluster, n));
    writer.read(ino, 0, &mut vec![0; BYTES]).unwrap();
    assert_eq!(other.fsync_by(ino, handle), Ok(()));
    drop(writer);
    (0..3).for_each(|n| restart(&mut cluster, n));
    assert_eq!(refused(&cluster), [Ino(0); 0]);
    assert_eq!(other.fsync_by(ino, handle), Ok(()));
}

#[test]
fn a_client_that_never_comes_back_may_have_lost_anything_if_a_node_lost_its_power_meanwhile() {
    for lose in [false, true] {
        let mut cluster = Cluster::start_with_grace(3, 1000);
        let writer = cluster.client();
        made(&writer, "file");
        // The home looks which nodes there are.
        std::thread::sleep(Duration::from_secs(3));
        // Dead: nothing of it is said any more, and its connections break.
        std::mem::forget(writer);
        if lose {
            cluster.lose_power(OTHER);
        }
        restart(&mut cluster, HOME);
        std::thread::sleep(Duration::from_secs(5));
        let wanted: &[Ino] = if lose { &[Ino(0)] } else { &[] };
        await_refused(&cluster, wanted, "what a lost client wrote");
        let lost = cluster.client().lost_writes().unwrap();
        assert!(lost.iter().all(|loss| loss.of.fragment == FragmentIndex(1)), "{lost:?}");
    }
}

#[test]
fn of_a_client_that_says_no_more_only_what_it_opened_for_writing_is_in_doubt() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let (writer, other) = (cluster.client(), cluster.client());
    let [safe, cut] = ["safe", "cut"].map(|name| made(&other, name));
    for ino in [safe, cut] {
        other.fsync(ino).unwrap();
        other.close(ino, true).unwrap();
    }
    let file = made(&writer, "file");
    writer.close(file, true).unwrap();
    writer.open(safe, false).unwrap();
    let half = Some(BYTES as u64 / 2);
    writer.setattr(New, cut, &SetAttr { size: half, ..SetAttr::default() }).unwrap();
    std::mem::forget(writer);
    cluster.lose_power(OTHER);
    other.read(safe, 0, &mut vec![0; BYTES]).unwrap();
    other.getattr(safe).unwrap();
    let mut wanted = [cut, file];
    wanted.sort();
    await_refused(&cluster, &wanted, "what it may have written");
    // Nobody who has seen which files were opened is left.
    restart(&mut cluster, HOME);
    await_refused(&cluster, &[Ino(0)], "what it may have written, any file");
}
