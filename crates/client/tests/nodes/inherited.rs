//! A client whose process is killed goes on in another one, which knows what was written by the first only from the
//! home shard.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, Contents, Failures, Memory, Names, ROOT, Remembered, RequestId::New};
use model::{FragmentIndex, Ino};

use crate::quiet::{QUIET_AFTER, die};
use wire::control::VolumeKind;

use crate::sessions::cutting_relay;
use crate::support::{Cluster, ME, pattern};
use crate::told::{BYTES, HOME, OTHER, made, refused, restart};

/// What a successor is to know.
#[derive(Default)]
struct Verifiers(Mutex<Vec<(FragmentIndex, u64)>>);

impl Memory for Verifiers {
    fn verifier(&self, fragment: FragmentIndex, verifier: u64) {
        self.0.lock().unwrap().push((fragment, verifier));
    }

    fn failed(&self, _: Ino, _: u64, _: i32) {}

    fn told(&self, _: Ino, _: u64) {}

    fn lost(&self) {}
}

/// A client that is to be killed, and what its successor is to know.
fn first(cluster: &Cluster) -> (Arc<Client>, Arc<Verifiers>) {
    let (first, verifiers) = (Arc::new(cluster.client()), Arc::new(Verifiers::default()));
    first.remember_in(verifiers.clone());
    first.confirm_with_age();
    (first, verifiers)
}

/// It is killed, and another goes on in its place.
fn replaced(cluster: &Cluster, first: (Arc<Client>, Arc<Verifiers>)) -> Arc<Client> {
    let successor = taken_over(cluster, first);
    // As a mount does that begins.
    successor.getattr(ROOT).unwrap();
    successor
}

/// The same, of one that has asked nobody for anything yet.
fn taken_over(cluster: &Cluster, (first, verifiers): (Arc<Client>, Arc<Verifiers>)) -> Arc<Client> {
    let session = first.session();
    die(first);
    let verifiers = verifiers.0.lock().unwrap().clone();
    let remembered = Remembered { verifiers, failures: Failures::default() };
    let successor = Client::resume(&cluster.target, session, Default::default(), remembered);
    let successor = Arc::new(successor.unwrap());
    successor.look_out_for_losses();
    successor.confirm_with_age();
    successor
}

#[test]
fn what_the_kernel_writes_to_a_file_that_a_successor_makes_first_of_all_is_not_lost() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can mount the volumes that hand out objects");
    }
    let cluster = Cluster::start_on(VolumeKind::Image, 1, 384 << 20);
    let first = first(&cluster);
    made(&first.0, "before");
    let successor = taken_over(&cluster, first);
    let since = successor.now();
    let (file, object) = successor.create_with_object(New, ROOT, b"file", 0o644, &ME).unwrap();
    let (object, handle) = (object.expect("the kernel keeps the capacity"), successor.handle());
    let handed = successor.handed(object.as_fd(), since).unwrap();
    successor.kernel_writes(file.ino);
    File::from(object).write_all(b"written by the kernel").unwrap();
    successor.kernel_wrote(file.ino, Some(handed));
    assert_eq!(successor.fsync_by(file.ino, handle), Ok(()));
}

#[test]
fn what_a_killed_client_wrote_long_ago_a_power_loss_does_not_take_from_its_successor() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let first = first(&cluster);
    let files = ["confirmed", "left"].map(|name| made(&first.0, name));
    first.0.fsync(files[0]).unwrap();
    let successor = replaced(&cluster, first);
    // The home has what was left synced.
    std::thread::sleep(Duration::from_secs(5));
    let handles = files.map(|ino| (ino, successor.handle()));
    for n in [OTHER, HOME] {
        cluster.lose_power(n);
        for (ino, handle) in handles {
            assert_eq!(
                successor.fsync_by(ino, handle),
                Ok(()),
                "by who had it open as node {n} lost its power"
            );
            assert_eq!(successor.fsync_by(ino, successor.handle()), Ok(()), "by who opens it after that");
        }
    }
    assert_eq!(refused(&cluster), [Ino(0); 0]);
}

#[test]
fn what_a_killed_client_wrote_is_known_though_its_successor_ends_before_it_asked_for_anything() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let first = first(&cluster);
    let ino = made(&first.0, "file");
    first.0.close(ino, true).unwrap();
    // Its last words, of a file that is closed, too.
    std::thread::sleep(Duration::from_millis(100));
    taken_over(&cluster, first).leave();
    cluster.lose_power(OTHER);
    assert_eq!(refused(&cluster), [ino]);
}

#[test]
fn what_a_client_wrote_that_was_away_for_the_grace_period_is_in_doubt_when_it_is_killed() {
    let mut cluster = Cluster::start_with_grace(3, 1000);
    let (armed, cut) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let home = cluster.target.nodes[HOME].tcp.clone();
    let direct = std::mem::replace(
        &mut cluster.target.nodes[HOME].tcp,
        cutting_relay(home, Arc::clone(&armed), Arc::clone(&cut)),
    );
    let first = first(&cluster);
    cluster.target.nodes[HOME].tcp = direct;
    let ino = made(&first.0, "file");
    first.0.fsync(ino).unwrap();
    armed.store(true, Ordering::SeqCst);
    cut.store(true, Ordering::SeqCst);
    // Only the home ends the session; what was written before is synced then.
    first.0.getattr(ROOT).unwrap_err();
    std::thread::sleep(Duration::from_secs(4));
    let mut pieces = cluster.target.layout.pieces(ino, 0, BYTES as u64);
    let there = pieces.find(|piece| piece.fragment.place() == OTHER).expect("it is striped");
    first.0.write(ino, there.file_offset, &pattern(100, 2)).unwrap();
    drop(pieces);
    // It never reaches the home again: what the home has heard of the file is that the session had it open.
    let successor = replaced(&cluster, first);
    let handle = successor.handle();
    cluster.lose_power(OTHER);
    successor.fsync_by(ino, handle).unwrap_err();
    assert_eq!(
        refused(&cluster),
        [Ino(0)],
        "what one program was told of one file is not all that it may have written"
    );
}

#[test]
fn a_client_that_had_confirmed_everything_and_is_killed_leaves_its_successor_nothing() {
    let mut cluster = Cluster::start(3, 64 << 20);
    let first = first(&cluster);
    let ino = made(&first.0, "file");
    first.0.close(ino, true).unwrap();
    std::thread::sleep(QUIET_AFTER);
    let successor = replaced(&cluster, first);
    let handle = successor.handle();
    cluster.lose_power(OTHER);
    assert_eq!(successor.fsync_by(ino, handle), Ok(()));
    assert_eq!(refused(&cluster), [Ino(0); 0]);
}

#[test]
fn what_a_killed_client_wrote_is_in_doubt_until_its_successor_has_confirmed_it_where_the_home_does_not_know()
{
    let mut cluster = Cluster::start(3, 64 << 20);
    let first = first(&cluster);
    let ino = made(&first.0, "file");
    first.0.close(ino, true).unwrap();
    restart(&mut cluster, HOME);
    let successor = replaced(&cluster, first);
    std::thread::sleep(QUIET_AFTER);
    let handle = successor.handle();
    cluster.lose_power(OTHER);
    assert_eq!(successor.fsync_by(ino, handle), Ok(()));
    assert_eq!(refused(&cluster), [Ino(0); 0]);
}

#[test]
fn what_a_killed_client_had_just_written_is_lost_to_its_successor() {
    for restarted in [false, true] {
        let mut cluster = Cluster::start(3, 64 << 20);
        let first = first(&cluster);
        let ino = made(&first.0, "file");
        if restarted {
            restart(&mut cluster, HOME);
        }
        let successor = replaced(&cluster, first);
        let handle = successor.handle();
        cluster.lose_power(OTHER);
        successor.fsync_by(ino, handle).unwrap_err();
        assert_eq!(
            successor.fsync_by(ino, handle),
            Ok(()),
            "it was told; the home was restarted: {restarted}"
        );
    }
}
