//! A node of another fragment hangs: it took a request, and neither answers nor hangs up.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::{Ino, NodeName, SessionId};
use wire::data::hello::{Key, Refusal, welcome};
use wire::data::{Connection, FileLock, LockKind, Stream};
use wire::node::StorageAddress;

use std::time::Instant;

use super::*;

const DEAD: SessionId = SessionId([4; 16]);

/// The node of a fragment that notes the objects that it was to remove.
#[derive(Clone)]
struct Fake {
    address: StorageAddress,
    removed: Arc<Mutex<Vec<Ino>>>,
    hangs: Arc<AtomicBool>,
}

impl Fake {
    /// One that hangs with the first object that it is to remove, if it `hangs`, until it is let go; with whom it
    /// spoke by then never hears of it again.
    fn new(hangs: bool) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = listener.local_addr().unwrap().to_string();
        let address = StorageAddress { node: NodeName::literal("n"), tcp, unix: None };
        let fake = Fake { address, removed: Arc::default(), hangs: Arc::new(AtomicBool::new(hangs)) };
        let serving = fake.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let fake = serving.clone();
                std::thread::spawn(move || fake.serve(Stream::tcp(stream.unwrap()).unwrap()));
            }
        });
        fake
    }

    fn serve(&self, mut stream: Stream) {
        let key = Key::from_hex(&"00".repeat(32)).unwrap();
        welcome(&mut stream, 1, |_| Ok::<_, Refusal>((key, ())), |_, _, ()| Ok(())).unwrap();
        let mut connection = Connection::new(stream);
        while let Ok(frame) = connection.receive::<Request>() {
            let reply = match frame.message {
                Request::Verifier => Reply::Verifier(1),
                Request::Destroy { .. } if self.hangs.load(Ordering::Relaxed) => loop {
                    std::thread::park();
                },
                Request::Destroy { ino } => {
                    self.removed.lock().unwrap().push(ino);
                    Reply::Done
                }
                _ => Reply::Done,
            };
            connection.send(frame.id, &reply, &[]).unwrap();
        }
    }

    fn has_removed(&self, ino: Ino) -> bool {
        self.removed.lock().unwrap().contains(&ino)
    }
}

fn remove(shard: &Shard, id: u64, name: &[u8]) -> Ino {
    let caller = |id| Caller::new(SESSION, id);
    let create = Request::Create { parent: ROOT, name: name.to_vec(), mode: 0o600, creator: ME };
    let ino = inode(shard.handle(caller(id), create)).unwrap();
    let handles = vec![ClosedHandle { ino, write: true, written: None }];
    shard.handle(caller(id + 1), Request::Close { handles });
    shard.handle(caller(id + 2), Request::Unlink { parent: ROOT, name: name.to_vec() });
    ino
}

fn until(what: &str, within: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < within, "{what}: not so within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_node_that_hangs_delays_neither_other_nodes_nor_the_locks_of_a_dead_client_and_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let (hanging, other) = (Fake::new(true), Fake::new(false));
    let addresses = [&other, &hanging, &other].map(|fake| fake.address.clone()).to_vec();
    let Parts { namespace, objects, peers } = Parts::among(folder.path(), 3, addresses, 1000);
    let shard = Shard::open(folder.path(), &namespace, Expect::New, objects, peers).unwrap();
    let lock = FileLock { kind: LockKind::Exclusive, start: 0, end: u64::MAX, pid: 1, whole_file: false };
    let locks = |session| {
        let request = Request::SetLock { ino: ROOT, owner: 1, lock, wait_ms: 0 };
        shard.handle(Caller::new(session, 900), request)
    };
    shard.connected(DEAD);
    assert_eq!(locks(DEAD), Reply::Done);
    let first = remove(&shard, 10, b"first");
    until("it is removed where nobody hangs", Duration::from_secs(3), || other.has_removed(first));
    shard.disconnected(DEAD);
    let second = remove(&shard, 20, b"second");
    until("the next is, too", Duration::from_secs(3), || other.has_removed(second));
    shard.connected(SESSION);
    until("the dead client's lock is free", Duration::from_secs(4), || locks(SESSION) == Reply::Done);

    hanging.hangs.store(false, Ordering::Relaxed);
    until("it is asked again", Duration::from_secs(20), || {
        hanging.has_removed(first) && hanging.has_removed(second)
    });
    until("the log has that", Duration::from_secs(1), || shard.lock().tree.orphans().next().is_none());
    shard.close();
}
