//! Connections that were begun before a fence, and are there after it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use client::{Client, Names, ROOT};
use model::{FragmentIndex, InstanceId};
use wire::data::dial::{Via, dial};
use wire::data::hello::Claim;
use wire::node::StorageAddress;

use crate::support::{Cluster, member};

/// Between a client and its node; what the client says on connection `n` passes while gate `n` is open.
struct Between {
    address: String,
    lines: Arc<Mutex<Vec<Line>>>,
}

struct Line {
    client: TcpStream,
    is_open: bool,
    said: Arc<AtomicUsize>,
}

impl Between {
    /// All gates are open at first but that of the second connection.
    fn start(node: String) -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let lines: Arc<Mutex<Vec<Line>>> = Arc::default();
        let kept = lines.clone();
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().map_while(Result::ok).enumerate() {
                let server = TcpStream::connect(&node).unwrap();
                let said = Arc::new(AtomicUsize::new(0));
                let line =
                    Line { client: client.try_clone().unwrap(), is_open: number != 1, said: said.clone() };
                kept.lock().unwrap().push(line);
                let (down, back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    std::io::copy(&mut &down, &mut &back).and_then(|_| back.shutdown(Shutdown::Both))
                });
                let lines = kept.clone();
                std::thread::spawn(move || forward(&lines, number, (client, server)));
            }
        });
        Between { address, lines }
    }

    fn set(&self, number: usize, is_open: bool) {
        self.lines.lock().unwrap()[number].is_open = is_open;
    }

    fn end(&self, number: usize) {
        self.lines.lock().unwrap()[number].client.shutdown(Shutdown::Both).unwrap();
    }

    /// Bytes that the client has said so far.
    fn said(&self, number: usize) -> usize {
        self.lines.lock().unwrap().get(number).map_or(0, |line| line.said.load(Ordering::Acquire))
    }

    fn until(&self, what: &str, is_so: impl Fn(&Between) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn forward(lines: &Mutex<Vec<Line>>, number: usize, (mut client, mut server): (TcpStream, TcpStream)) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = client.read(&mut bytes) {
        lines.lock().unwrap()[number].said.fetch_add(len, Ordering::AcqRel);
        while !lines.lock().unwrap()[number].is_open {
            std::thread::sleep(Duration::from_millis(1));
        }
        if server.write_all(&bytes[..len]).is_err() {
            break;
        }
    }
    let _gone = server.shutdown(Shutdown::Both);
}

/// What a client says until it is welcome, bytes.
fn handshake(cluster: &Cluster) -> usize {
    let node = &cluster.target.nodes[0];
    let between = Between::start(node.tcp.clone());
    let claim = Claim {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        fragment: FragmentIndex(0),
        session: [9; 16].into(),
    };
    let node = StorageAddress { tcp: between.address.clone(), ..node.clone() };
    dial(&node, Via::Tcp, &member(), &claim).unwrap();
    between.said(0)
}

#[test]
fn nothing_is_sent_over_a_connection_that_no_fence_has_seen() {
    let cluster = Cluster::start(1, 1 << 20);
    let mut target = cluster.target.clone();
    let between = Between::start(target.nodes[0].tcp.clone());
    (target.nodes[0].tcp, target.nodes[0].unix) = (between.address.clone(), None);
    let client = Client::connect(&target).unwrap();
    client.getattr(ROOT).unwrap();
    let first_said = between.said(0);
    // One request is under way on the first connection, so that another opens the second.
    between.set(0, false);
    std::thread::scope(|scope| {
        let under_way = scope.spawn(|| client.getattr(ROOT).map(drop));
        between.until("a request over the first connection", |between| between.said(0) > first_said);
        let late = scope.spawn(|| client.getattr(ROOT).map(drop));
        between.until("a second connection", |between| between.said(1) > 0);
        // The first breaks: the third begins with a fence, which the second is not there for.
        between.end(0);
        under_way.join().unwrap().unwrap();
        between.set(1, true);
        late.join().unwrap().unwrap();
    });
    assert_eq!(between.said(1), handshake(&cluster), "only the handshake");
}
