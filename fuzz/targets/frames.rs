//! A storage node and a client read frames from anybody: whatever the bytes are, a connection gives messages or an
//! error, and never asks for more memory than the protocol allows a frame.

#![no_main]

use std::io::Write;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use serde::de::DeserializeOwned;
use wire::data::{Connection, PAYLOAD_BYTES_MAX, Reply, Request, Stream};

/// As many bytes as a socket takes without a reader.
const SOCKET_BYTES: usize = 64 << 10;

fuzz_target!(|bytes: &[u8]| {
    let bytes = &bytes[..bytes.len().min(SOCKET_BYTES)];
    read::<Request>(bytes);
    read::<Reply>(bytes);
});

fn read<M: DeserializeOwned>(bytes: &[u8]) {
    let (mut there, here) = UnixStream::pair().expect("a pair of sockets");
    there.write_all(bytes).expect("a socket takes 64 KiB");
    drop(there);
    let mut connection = Connection::new(Stream::Unix(here));
    while let Ok(frame) = connection.receive::<M>() {
        assert!(frame.payload_len <= PAYLOAD_BYTES_MAX);
        if connection.payload(&mut vec![0; frame.payload_len]).is_err() {
            return;
        }
    }
}
