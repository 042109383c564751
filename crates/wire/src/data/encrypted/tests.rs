//! What the two sides of an encrypted connection hear where somebody in between has his way.

use std::io::{self, IoSlice, Read};

use ring::aead::Tag;

use super::noise::{self, Agreed};
use super::records::{Opening, RECORD_BYTES, REKEY_EVERY, RecordKey, Sealing};

const KEY: [u8; 32] = [7; 32];

/// What goes over the wire for each of these.
fn sealed(texts: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut sealing = Sealing::new(&KEY);
    let seal = |text: &&[u8]| {
        let mut wire = Vec::new();
        assert_eq!(sealing.write(&mut wire, &[IoSlice::new(text)]).unwrap(), text.len());
        wire
    };
    texts.iter().map(seal).collect()
}

/// All that is read of it, and why no more.
fn read(wire: &[u8]) -> (Vec<u8>, io::Result<()>) {
    let (mut opening, mut wire, mut heard) = (Opening::new(&KEY), wire, Vec::new());
    let mut buffer = [0; 100];
    loop {
        match opening.read(&mut wire, &mut buffer) {
            Ok(0) => return (heard, Ok(())),
            Ok(len) => heard.extend_from_slice(&buffer[..len]),
            Err(error) => {
                let again = opening.read(&mut wire, &mut buffer);
                assert!(
                    again.is_err(),
                    "whoever asks again is not given what comes after the gap: {again:?}"
                );
                return (heard, Err(error));
            }
        }
    }
}

#[test]
fn what_is_sent_is_read_whatever_the_pieces() {
    let long: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let (mut sealing, mut wire, mut rest) = (Sealing::new(&KEY), Vec::new(), &long[..]);
    while !rest.is_empty() {
        let slices = [IoSlice::new(&rest[..1]), IoSlice::new(&rest[1..])];
        let len = sealing.write(&mut wire, &slices).unwrap();
        rest = &rest[len..];
    }
    assert_eq!(wire.len(), long.len() + long.len().div_ceil(RECORD_BYTES) * 18);
    for piece in [1, 3, 1000, 65_536, 300_000] {
        let (mut opening, mut heard, mut wire) = (Opening::new(&KEY), Vec::new(), Slow(&wire, piece, false));
        let mut buffer = vec![0; piece];
        while heard.len() < long.len() {
            match opening.read(&mut wire, &mut buffer) {
                Ok(len) => heard.extend_from_slice(&buffer[..len]),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert!(heard == long, "pieces of {piece}");
    }
}

/// Gives pieces, and between them nothing.
struct Slow<'a>(&'a [u8], usize, bool);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.2 = !self.2;
        if self.2 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let len = buffer.len().min(self.1);
        self.0.read(&mut buffer[..len])
    }
}

#[test]
fn what_was_changed_left_out_repeated_or_exchanged_is_not_read() {
    let [a, b, c] = &sealed(&[b"first", b"second", b"third"])[..] else { unreachable!() };
    assert_eq!(read(&[&a[..], b, c].concat()).0, b"firstsecondthird");
    for bit in 0..a.len() * 8 {
        let mut changed = [&a[..], b].concat();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (heard, end) = read(&changed);
        assert!(heard.is_empty() && end.is_err(), "bit {bit}");
    }
    let wrong: [(&[&Vec<u8>], &[u8]); 4] =
        [(&[a, c], b"first"), (&[a, a], b"first"), (&[b, a], b""), (&[a, b, a], b"firstsecond")];
    for (wire, expected) in wrong {
        let wire: Vec<u8> = wire.iter().flat_map(|record| record.iter().copied()).collect();
        let (heard, end) = read(&wire);
        assert_eq!(heard, expected);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
    let (heard, end) = read(&[&a[..], &b[..b.len() - 1]].concat());
    assert_eq!((heard, end.unwrap_err().kind()), (b"first".to_vec(), io::ErrorKind::ConnectionAborted));
}

#[test]
fn keys_are_exchanged_on_both_sides_after_the_same_record() {
    let (mut sealing, mut opening, mut wire) = (Sealing::new(&KEY), Opening::new(&KEY), Vec::new());
    for number in 0..=REKEY_EVERY {
        wire.clear();
        sealing.write(&mut wire, &[IoSlice::new(b"x")]).unwrap();
        assert_eq!(opening.read(&mut &wire[..], &mut [0]).unwrap(), 1, "record {number}");
    }
    assert_eq!(hex(&wire), "1100b9342f17f39f087cbc8c4ea202353aa389", "as Noise's REKEY makes it");
    let (text, tag) = wire[2..].split_last_chunk().unwrap();
    let opened = RecordKey::new(&KEY).open(REKEY_EVERY, &[], Tag::from(*tag), &mut text.to_vec());
    assert!(opened.is_err(), "the former key opens nothing any more");
}

fn hex(bytes: &[u8]) -> String {
    crate::hex::encode(bytes)
}

/// What is expected was made with another implementation, which gives what Noise's published example says.
#[test]
fn what_goes_over_the_wire_is_what_noise_prescribes() {
    let agreed = Agreed { secret: KEY, said: b"said".to_vec() };
    let builder = |drawn| noise::builder(&agreed).unwrap().fixed_ephemeral_key_for_testing_only(drawn);
    let mut client = builder(&[1; 32]).build_initiator().unwrap();
    let mut server = builder(&[2; 32]).build_responder().unwrap();
    let (mut asked, mut answered) = ([0; 48], [0; 48]);
    client.write_message(&[], &mut asked).unwrap();
    server.read_message(&asked, &mut []).unwrap();
    server.write_message(&[], &mut answered).unwrap();
    client.read_message(&answered, &mut []).unwrap();
    let expected = [
        "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a20974a56029f8e614663861b560f53a5f91",
        "ce8d3ad1ccb633ec7b70c17814a5c76ecd029685050d344745ba05870e587d59e2a4895cfe9a3650d02b56986ba92f13",
        "c0fb001f8cee398732c10224c1bb5944bfdb809d0fbf194205ef0ccf3bfad72c",
        "84b5b0df4287e9672cc77b117201b25bfec8e800722b81d89c9e1e345a640319",
    ];
    let (towards_server, towards_client) = client.dangerously_get_raw_split();
    assert_eq!([hex(&asked), hex(&answered), hex(&towards_server), hex(&towards_client)], expected);
    let first = &sealed(&[b"x"])[0];
    assert_eq!(hex(first), "110019d1d0effdd1203b81c487ef55bf300827");
}

#[test]
fn only_who_knows_the_same_secret_and_has_heard_the_same_comes_to_the_same_keys() {
    let shake = |ours: ([u8; 32], &[u8]), theirs: ([u8; 32], &[u8])| {
        let agreed = |(secret, said): ([u8; 32], &[u8])| Agreed { secret, said: said.to_vec() };
        let (ours, theirs) = (agreed(ours), agreed(theirs));
        let (mut a, mut b) = std::os::unix::net::UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || noise::answer(&mut b, &theirs));
        let client = noise::ask(&mut a, &ours);
        drop(a);
        (client, server.join().unwrap())
    };
    let (client, server) = shake((KEY, b"said"), (KEY, b"said"));
    let (client, server) = (client.unwrap(), server.unwrap());
    assert!(client.fits(&server));
    let (again, _) = shake((KEY, b"said"), (KEY, b"said"));
    assert_ne!(again.unwrap().ours, client.ours, "each connection has keys of its own");
    for other in [([8; 32], &b"said"[..]), (KEY, b"heard")] {
        let (client, server) = shake((KEY, b"said"), other);
        assert_eq!(server.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(client.is_err());
    }
}
