//! Something in the place of the node that keeps the copy of a metadata log, which answers as a test wants.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use wire::data::hello::{Key, welcome};
use wire::data::{Connection, Reply, Request, Stream, Time};

use crate::support::{KEY, bind};

/// What it answers, and the bytes that go with that; `None`: it hangs up.
pub type Answer = dyn Fn(&Request) -> Option<(Reply, Vec<u8>)> + Send + Sync;

/// It, until it is dropped.
pub struct Keeper {
    address: String,
    /// What is connected; `None` once it is over.
    streams: Arc<Mutex<Option<Vec<Stream>>>>,
    thread: Option<JoinHandle<()>>,
}

/// What a mirror says that has no object, and was found so often.
pub fn empty_mirror(request: &Request, met: &AtomicU64) -> Reply {
    match request {
        Request::FindMeeting => Reply::Meeting(met.load(Ordering::Relaxed)),
        Request::NoteMeeting { number } => {
            met.store(*number, Ordering::Relaxed);
            Reply::Done
        }
        Request::FindMirror | Request::BeginMirror { .. } => {
            Reply::Mirror { life: 7, whole: true, lacking: Vec::new(), verifier: None }
        }
        Request::ListObjects { .. } => Reply::Objects(Vec::new()),
        Request::DescribeMirrored { .. } => {
            Reply::Mirrored { size: 0, mtime: Time::default(), sealed: false, unverified: false }
        }
        Request::NextData { .. } => Reply::Range(None),
        Request::Verifier => Reply::Verifier(7),
        Request::FindCopy => Reply::Copy { length: 0, confirmed: 0 },
        _ => Reply::Done,
    }
}

impl Keeper {
    /// Listens at `address`.
    pub fn start(address: &str, answer: Arc<Answer>) -> Keeper {
        let listener = bind(address);
        let streams = Arc::new(Mutex::new(Some(Vec::new())));
        let connected = streams.clone();
        let thread = std::thread::spawn(move || accept(&listener, &connected, &answer));
        Keeper { address: address.into(), streams, thread: Some(thread) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let streams = self.streams.lock().unwrap().take();
        streams.into_iter().flatten().for_each(|stream| stream.shutdown());
        let _woken = TcpStream::connect(&self.address);
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn accept(listener: &TcpListener, streams: &Mutex<Option<Vec<Stream>>>, answer: &Arc<Answer>) {
    loop {
        let stream = Stream::tcp(listener.accept().unwrap().0).unwrap();
        let mut streams = streams.lock().unwrap();
        let Some(streams) = &mut *streams else { return };
        streams.push(stream.try_clone().unwrap());
        let answer = answer.clone();
        std::thread::spawn(move || serve(stream, &*answer));
    }
}

/// To the connection's end.
fn serve(mut stream: Stream, answer: &Answer) -> std::io::Result<()> {
    let key = Key::from_hex(KEY).unwrap();
    welcome(&mut stream, 1, |_| Ok((key, ())), |_, _, ()| Ok(())).map_err(std::io::Error::other)?;
    let mut connection = Connection::new(stream);
    loop {
        let frame = connection.receive::<Request>()?;
        connection.payload(&mut vec![0; frame.payload_len])?;
        let Some((reply, bytes)) = answer(&frame.message) else { return Ok(()) };
        connection.send(frame.id, &reply, &bytes)?;
    }
}
