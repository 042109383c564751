//! A link between mounts and a storage node: a relay for TCP that can be cut, held up, or slow.
//!
//! **Invariant:** what it carries it carries in order and whole; what is lost is lost with its connection.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Link {
    /// It carries what comes.
    Open,
    /// There is no connection.
    Cut,
    /// Nothing arrives, and nothing is lost.
    Held,
    /// It carries 1 MiB a second.
    Slow,
    /// It is not used any more.
    Ended,
}

/// As much as is carried at once, bytes.
const CHUNK: usize = 16 << 10;

/// What a slow link takes for that.
const CHUNK_SLOWLY: Duration = Duration::from_micros(15_625);

/// How often who waits looks again.
const PAUSE: Duration = Duration::from_millis(2);

/// The relay. Its threads end with it and their connections.
pub struct Relay {
    address: String,
    shared: Arc<Shared>,
}

struct Shared {
    link: AtomicU8,
    streams: Mutex<Vec<TcpStream>>,
}

impl Relay {
    /// Starts one to `target`.
    pub fn start(target: String) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a loopback interface");
        let address = listener.local_addr().expect("it is bound").to_string();
        let shared = Arc::new(Shared { link: AtomicU8::new(Link::Open as u8), streams: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if of_thread.is(Link::Ended) {
                    return;
                }
                // Without its target, or cut: the connection ends at once.
                if let (false, Ok(other)) = (of_thread.is(Link::Cut), TcpStream::connect(&target)) {
                    of_thread.carry(stream, other);
                }
            }
        });
        Relay { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// From now on it is like this.
    pub fn set(&self, link: Link) {
        self.shared.link.store(link as u8, Ordering::SeqCst);
        if matches!(link, Link::Cut | Link::Ended) {
            let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
            for stream in streams.drain(..) {
                let _closed = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.set(Link::Ended);
        let _wakes_it = TcpStream::connect(&self.address);
    }
}

impl Shared {
    fn is(&self, link: Link) -> bool {
        self.link.load(Ordering::SeqCst) == link as u8
    }

    fn carry(self: &Arc<Self>, one: TcpStream, other: TcpStream) {
        for stream in [&one, &other] {
            stream.set_nodelay(true).expect("it is a TCP socket");
            let copy = stream.try_clone().expect("a socket can be shared");
            self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(copy);
        }
        let pair = |stream: &TcpStream| stream.try_clone().expect("a socket can be shared");
        for (from, to) in [(pair(&one), pair(&other)), (other, one)] {
            let shared = Arc::clone(self);
            std::thread::spawn(move || shared.carry_one_way(from, to));
        }
    }

    fn carry_one_way(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length @ 1..) = from.read(&mut chunk) {
            while self.is(Link::Held) {
                std::thread::sleep(PAUSE);
            }
            if self.is(Link::Slow) {
                std::thread::sleep(CHUNK_SLOWLY);
            }
            if to.write_all(&chunk[..length]).is_err() {
                break;
            }
        }
        for stream in [from, to] {
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}
