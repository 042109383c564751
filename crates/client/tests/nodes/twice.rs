//! A disk that could not write something back, twice under one commit verifier: each client hears of both.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, Contents, Errno, Names, ROOT, RequestId::New};
use model::{FragmentIndex, Ino, InstanceId, SessionId};
use wire::data::dial::{Via, dial};
use wire::data::hello::Claim;
use wire::data::message::LossRequest;
use wire::data::{Reply, Request, Time};

use crate::keeper::{Answer, Keeper};
use crate::quiet::QUIET_AFTER;
use crate::support::{Cluster, ME, member, pattern};
use crate::told::refused;

/// The home of the namespace, and the node with the disk.
const HOME: usize = 0;
const SICK: usize = 1;

/// Stripes on both.
const BYTES: usize = 200_000;

/// What the node says.
struct Says {
    verifier: AtomicU64,
    /// To who syncs one file; 0: that all is well.
    sync: AtomicI32,
    /// To who syncs many.
    sync_many: AtomicI32,
}

/// A node with a sick disk, and its home.
struct Sick {
    cluster: Cluster,
    says: Arc<Says>,
    node: Mutex<Option<Keeper>>,
}

impl Sick {
    fn start() -> Sick {
        let cluster = Cluster::start(2, 64 << 20);
        cluster.servers[SICK].shutdown();
        let (verifier, sync, sync_many) = (AtomicU64::new(7), AtomicI32::new(0), AtomicI32::new(0));
        let sick =
            Sick { cluster, says: Arc::new(Says { verifier, sync, sync_many }), node: Mutex::default() };
        sick.restart(7);
        sick
    }

    /// Its process is started, or started again, has this verifier then, and knows of no failure.
    fn restart(&self, verifier: u64) {
        drop(self.node.lock().unwrap().take());
        self.says.verifier.store(verifier, Ordering::Relaxed);
        self.well();
        let says = self.says.clone();
        let result = |errno: &AtomicI32| match errno.load(Ordering::Relaxed) {
            0 => Reply::Done,
            errno => Reply::Failed(errno),
        };
        let answer = move |request: &Request| {
            let reply = match request {
                Request::Verifier => Reply::Verifier(says.verifier.load(Ordering::Relaxed)),
                Request::Sync { .. } => result(&says.sync),
                Request::SyncMany { .. } => result(&says.sync_many),
                Request::Write { .. } | Request::WriteExtents { .. } => {
                    Reply::Stored { mtime: Time::default() }
                }
                Request::Measure { .. } => Reply::Object { size: 0, mtime: Time::default(), blocks: 0 },
                Request::ListObjects { .. } => Reply::Objects(Vec::new()),
                _ => Reply::Done,
            };
            Some((reply, Vec::new()))
        };
        let answer: Arc<Answer> = Arc::new(answer);
        *self.node.lock().unwrap() = Some(Keeper::start(&self.cluster.target.nodes[SICK].tcp, answer));
    }

    /// The disk has lost something of the file. The node tells the home by itself, and who syncs the file.
    fn fails(&self, ino: Ino) {
        self.is_owed();
        let (fragment, verifier) = (FragmentIndex(1), self.says.verifier.load(Ordering::Relaxed));
        let instance = InstanceId::literal("i1");
        let claim = Claim { instance, namespace: 0, fragment: FragmentIndex(0), session: SessionId([7; 16]) };
        let (mut home, _) = dial(&self.cluster.target.nodes[HOME], Via::Tcp, &member(), &claim).unwrap();
        let lost = LossRequest::Lost { fragment, verifier, inos: vec![ino], any: false };
        home.send(1, &Request::Losses(lost), &[]).unwrap();
        assert_eq!(home.receive::<Reply>().unwrap().message, Reply::Done);
    }

    /// Who is asked for next was not told yet.
    fn is_owed(&self) {
        self.says.sync.store(Errno::IO.raw_os_error(), Ordering::Relaxed);
        self.says.sync_many.store(Errno::REMOTEIO.raw_os_error(), Ordering::Relaxed);
    }

    /// Who is asked for next was told.
    fn well(&self) {
        self.says.sync.store(0, Ordering::Relaxed);
        self.says.sync_many.store(0, Ordering::Relaxed);
    }

    /// The node tells this client, which has not synced the file since, in the answer to its sync.
    fn tells(&self, client: &Client, ino: Ino, handle: u64) {
        self.is_owed();
        assert_eq!(client.fsync_by(ino, handle), Err(Errno::IO), "the node says so");
        self.well();
    }
}

fn made(client: &Client) -> Ino {
    let ino = client.create(New, ROOT, b"file", 0o644, &ME).unwrap().ino;
    client.write(ino, 0, &pattern(BYTES, 1)).unwrap();
    ino
}

#[test]
fn each_client_is_told_once_of_each_failure_whoever_heard_of_it_first() {
    let sick = Sick::start();
    let (one, other, third) = (sick.cluster.client(), sick.cluster.client(), sick.cluster.client());
    let ino = made(&one);
    let [a, b, c] = [&one, &other, &third].map(|client| (client, client.handle()));
    let synced = |(client, handle): (&Client, u64)| client.fsync_by(ino, handle);
    for who in [a, b, c] {
        assert_eq!(synced(who), Ok(()));
    }
    sick.fails(ino);
    sick.tells(b.0, ino, b.1);
    assert_eq!(synced(b), Ok(()));
    sick.tells(a.0, ino, a.1);
    assert_eq!([synced(b), synced(a)], [Ok(()); 2], "that was the same failure");
    // This one hears it from the home, and then from the node.
    assert_eq!([synced(c), synced(c)], [Err(Errno::IO), Ok(())]);
    sick.tells(c.0, ino, c.1);
    assert_eq!([synced(a), synced(b), synced(c)], [Ok(()); 3], "still the same");
    for _ in 0..2 {
        sick.fails(ino);
        sick.tells(b.0, ino, b.1);
        // The node is started again, and has forgotten whom it has told.
        assert_eq!(
            [synced(a), synced(b), synced(c)],
            [Err(Errno::IO), Ok(()), Err(Errno::IO)],
            "it failed again"
        );
        assert_eq!([synced(a), synced(b), synced(c)], [Ok(()); 3], "each is told once");
    }
}

#[test]
fn a_failure_after_a_power_loss_is_one_more() {
    let sick = Sick::start();
    let (one, other) = (sick.cluster.client(), sick.cluster.client());
    let ino = made(&one);
    let (a, b) = (one.handle(), other.handle());
    assert_eq!(other.fsync_by(ino, b), Ok(()));
    sick.restart(8);
    assert_eq!(one.fsync_by(ino, a), Err(Errno::IO));
    assert_eq!([one.fsync_by(ino, a), other.fsync_by(ino, b)], [Ok(()), Err(Errno::IO)]);
    sick.fails(ino);
    sick.tells(&other, ino, b);
    assert_eq!([one.fsync_by(ino, a), one.fsync_by(ino, a)], [Err(Errno::IO), Ok(())]);
}

#[test]
fn what_a_disk_has_lost_does_not_count_as_confirmed_with_age() {
    let sick = Sick::start();
    let (writer, other) = (Arc::new(sick.cluster.client()), sick.cluster.client());
    writer.confirm_with_age();
    writer.look_out_for_losses();
    let ino = made(&writer);
    let (a, b) = (writer.handle(), other.handle());
    assert_eq!([writer.fsync_by(ino, a), other.fsync_by(ino, b)], [Ok(()); 2]);
    writer.write(ino, 0, &pattern(BYTES, 2)).unwrap();
    sick.fails(ino);
    sick.tells(&other, ino, b);
    // The writer has heard nothing from the node.
    sick.is_owed();
    std::thread::sleep(QUIET_AFTER);
    // What it lost has made the node take another verifier; the writer sees that within a second.
    sick.restart(8);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(refused(&sick.cluster), [ino], "its bytes are gone, and it was not told");
    assert_eq!(writer.fsync_by(ino, a), Err(Errno::IO));
    assert_eq!(writer.fsync_by(ino, a), Ok(()));
}
