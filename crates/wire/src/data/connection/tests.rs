//! Frames that are taken apart, damaged, queued and sent together.

use std::io::Read;
use std::os::unix::net::UnixStream;

use model::Ino;
use proptest::prelude::*;

use super::super::{FileLock, LockKind, Reply, Request, message::RenameMode, message::XattrMode};
use super::*;

fn pair() -> (Connection, UnixStream) {
    let (a, b) = UnixStream::pair().unwrap();
    (Connection::new(Stream::Unix(a)), b)
}

#[test]
fn a_frame_comes_out_as_it_went_in() {
    let (a, b) = UnixStream::pair().unwrap();
    let (mut a, mut b) = (Connection::new(Stream::Unix(a)), Connection::new(Stream::Unix(b)));
    let request = Request::Write { ino: Ino(7), offset: 1 << 40 };
    let payload = vec![3; PAYLOAD_BYTES_MAX];
    let sent = payload.clone();
    let sender = std::thread::spawn(move || a.send(42, &request, &sent).unwrap());
    let frame: Frame<Request> = b.receive().unwrap();
    assert_eq!((frame.id, &frame.message), (42, &Request::Write { ino: Ino(7), offset: 1 << 40 }));
    let mut taken = vec![0; frame.payload_len];
    b.payload(&mut taken).unwrap();
    sender.join().unwrap();
    assert_eq!(taken, payload);
}

#[test]
fn queued_frames_go_out_together_in_order_and_before_their_sender_waits() {
    let (a, b) = UnixStream::pair().unwrap();
    let (mut a, mut b) = (Connection::new(Stream::Unix(a)), Connection::new(Stream::Unix(b)));
    let payloads = [vec![1; 10], vec![2; QUEUED_PAYLOAD_MAX], vec![3; QUEUED_PAYLOAD_MAX + 1], vec![]];
    for (id, payload) in (1..).zip(&payloads) {
        a.queue(id, &Request::Usage, payload).unwrap();
    }
    let waiting = std::thread::spawn(move || a.receive::<Reply>().unwrap().id);
    for (id, payload) in (1..).zip(&payloads) {
        let frame: Frame<Request> = b.receive().unwrap();
        let mut taken = vec![0; frame.payload_len];
        b.payload(&mut taken).unwrap();
        assert_eq!((frame.id, &taken), (id, payload));
    }
    b.send(5, &Reply::Done, &[]).unwrap();
    assert_eq!(waiting.join().unwrap(), 5);
}

#[test]
fn a_descriptor_arrives_open() {
    let (a, b) = UnixStream::pair().unwrap();
    let (mut a, mut b) = (Connection::new(Stream::Unix(a)), Connection::new(Stream::Unix(b)));
    let file = std::fs::File::open("/proc/self/status").unwrap();
    a.send(1, &Reply::Descriptor, &[]).unwrap();
    a.send_descriptor(file.as_fd()).unwrap();
    a.send(2, &Reply::Done, &[]).unwrap();
    assert_eq!(b.receive::<Reply>().unwrap().message, Reply::Descriptor);
    let mut text = String::new();
    std::fs::File::from(b.receive_descriptor().unwrap()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("Name:"));
    assert_eq!(b.receive::<Reply>().unwrap().id, 2, "what follows is a frame again");
}

proptest! {
    #[test]
    fn no_bytes_make_the_receiver_panic_or_allocate_past_the_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let (mut connection, mut other) = pair();
        other.write_all(&bytes).unwrap();
        drop(other);
        let frame = connection.receive::<Request>();
        prop_assert!(frame.is_err() || connection.meta.len() <= META_BYTES_MAX);
    }

    #[test]
    fn a_damaged_message_is_refused_or_no_longer_than_it_came(
        which in 0usize..4,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let lock = FileLock { kind: LockKind::Shared, start: 1, end: 1 << 40, pid: 9, whole_file: false };
        let (ino, name) = (Ino(1 << 33), b"name".repeat(9));
        let messages = [
            Request::Reclaim { opens: vec![(ino, 1, 2); 30] },
            Request::ReclaimLocks { locks: vec![(ino, u64::MAX, lock); 20] },
            Request::SetXattr { ino, name: name.clone(), value: vec![3; 300], mode: XattrMode::Any },
            Request::Rename {
                parent: ino,
                name: name.clone(),
                new_parent: Ino(2),
                new_name: name,
                mode: RenameMode::Exchange,
            },
        ];
        let mut bytes = encode(&messages[which]);
        let len = bytes.len();
        damage.iter().for_each(|(at, byte)| bytes[at.index(len)] = *byte);
        if let Ok(message) = postcard::from_bytes::<Request>(&bytes) {
            prop_assert!(encode(&message).len() <= len);
        }
    }

    #[test]
    fn no_message_bytes_make_the_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = postcard::from_bytes::<Request>(&bytes);
        let _ = postcard::from_bytes::<Reply>(&bytes);
    }
}
