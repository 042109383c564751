//! What messages of the data path look like as bytes: nodes and clients of one version understand each other by that
//! alone, whatever types the fields have here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use model::{FragmentIndex, Ino, InstanceId, NodeName, SessionId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use wire::data::connection::encode;
use wire::data::credential::{Credential, Grant, Holder};
use wire::data::hello::{Claim, Key, greet};
use wire::data::member::{Member, Role};
use wire::data::message::{
    AllocateMode, ClosedHandle, InodeReply, JUST_MADE, Loss, LossRequest, LostOf, Written,
};
use wire::data::{
    Attr, Creator, DirEntry, FileKind, FileLock, LockKind, ROOT, Reply, Request, SetAttr, Time,
};
use wire::node::{Moved, StorageAddress};

/// One with a home shard, and of more than one byte.
const INO: Ino = Ino((1 << 48) + 300);
const SECOND: Ino = Ino(129);
const SESSION: SessionId = SessionId(*b"sixteen bytes!!!");
const FRAGMENT: FragmentIndex = FragmentIndex(200);

const TIME: Time = Time { seconds: -1, nanos: 5 };

fn attr() -> Attr {
    Attr {
        ino: INO,
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        uid: 2,
        gid: 3,
        rdev: 4,
        size: 5,
        blocks: 6,
        atime: TIME,
        mtime: TIME,
        ctime: TIME,
    }
}

fn lock() -> FileLock {
    FileLock { kind: LockKind::Exclusive, start: 1, end: 2, pid: 3, whole_file: false }
}

fn key() -> Key {
    Key::from_hex(&"ab".repeat(32)).expect("64 digits are a key")
}

fn grant() -> Grant {
    Grant::give(&key(), Holder { uid: 7, session: SESSION }, INO, true, false)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Each of them has these bytes, which say the same to whoever reads them.
fn frozen<M: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(messages: &[(M, &str)]) {
    let wrong: Vec<String> = messages
        .iter()
        .filter(|(message, expected)| hex(&encode(message)) != *expected)
        .map(|(message, _)| format!("{message:?}\n{}", hex(&encode(message))))
        .collect();
    assert!(wrong.is_empty(), "other bytes than before:\n{}", wrong.join("\n"));
    for (message, _) in messages {
        assert_eq!(&postcard::from_bytes::<M>(&encode(message)).unwrap(), message);
    }
}

#[test]
fn requests_about_names_have_the_bytes_that_they_always_had() {
    let name = || b"n".to_vec();
    let creator = Creator { uid: 1, gid: 2, umask: 0o22 };
    frozen(&[
        (Request::Lookup { parent: ROOT, name: name() }, "0001016e"),
        (Request::GetAttr { ino: INO }, "01ac828080808040"),
        (
            Request::SetAttr { ino: INO, set: SetAttr { size: Some(9), ..SetAttr::default() } },
            "02ac8280808080400000000109000000",
        ),
        (
            Request::Create { parent: INO, name: name(), mode: 0o600, creator },
            "03ac828080808040016e8003010212",
        ),
        (
            Request::Make {
                parent: INO,
                name: name(),
                kind: FileKind::Symlink,
                mode: 0o777,
                rdev: 0,
                target: b"t".to_vec(),
                creator,
            },
            "04ac828080808040016e02ff03000174010212",
        ),
        (Request::Link { ino: INO, parent: SECOND, name: name() }, "05ac8280808080408101016e"),
        (Request::ReadDir { ino: INO, cookie: 3 }, "09ac82808080804003"),
    ]);
}

#[test]
fn requests_about_open_files_have_the_bytes_that_they_always_had() {
    let written = Written { end: 9, mtime: TIME, epoch: 3, times: 4 };
    frozen(&[
        (Request::Open { ino: INO, write: true }, "0bac82808080804001"),
        (
            Request::Close { handles: vec![ClosedHandle { ino: INO, write: true, written: Some(written) }] },
            "0c01ac82808080804001010901050304",
        ),
        (Request::Settle { ino: INO, size: 1, mtime: TIME, epoch: 2 }, "0dac82808080804001010502"),
        (Request::Reclaim { opens: vec![(INO, 1, 2), (SECOND, 0, 300)] }, "0e02ac8280808080400102810100ac02"),
        (Request::TestLock { ino: INO, owner: 400, lock: lock() }, "20ac82808080804090030101020300"),
        (Request::ReclaimLocks { locks: vec![(INO, 400, lock())] }, "2301ac82808080804090030101020300"),
        (Request::ReserveEnd { ino: INO, size: 1, len: 2 }, "24ac8280808080400102"),
        (Request::Doubt { inos: vec![INO, SECOND] }, "2c02ac8280808080408101"),
    ]);
}

#[test]
fn requests_about_objects_have_the_bytes_that_they_always_had() {
    frozen(&[
        (Request::Read { ino: INO, offset: 4096, len: 512 }, "16ac82808080804080208004"),
        (Request::Write { ino: INO, offset: 4096 }, "17ac8280808080408020"),
        (Request::Resize { ino: INO, size: 1 }, "18ac82808080804001"),
        (
            Request::Allocate { ino: INO, offset: 1, len: 2, mode: AllocateMode::PunchHole },
            "19ac828080808040010202",
        ),
        (Request::OpenObject { ino: JUST_MADE }, "1f00"),
        (Request::WriteExtents { ino: INO, extents: vec![(1, 2)] }, "27ac828080808040010102"),
        (Request::SyncMany { inos: vec![INO, SECOND] }, "2902ac8280808080408101"),
        (Request::ListObjects { after: INO }, "2dac828080808040"),
        (Request::NoteMirror { whole: false, lacking: vec![INO, SECOND] }, "340002ac8280808080408101"),
        (Request::ListMeant { fragment: FRAGMENT, after: INO }, "36c801ac828080808040"),
        (Request::ListUnverified { after: INO }, "38ac828080808040"),
        (Request::DestroyForGood { inos: vec![INO, SECOND] }, "3b02ac8280808080408101"),
        (
            Request::Granted { grant: grant(), request: encode(&Request::Sync { ino: INO }) },
            "3c01005c16b9591e925703c7c93c84617292f6081aac828080808040",
        ),
    ]);
}

#[test]
fn what_is_told_of_losses_and_asked_has_the_bytes_that_it_always_had() {
    let (fragment, verifier, inos) = (FRAGMENT, 300, vec![INO, SECOND]);
    let of = LostOf { ino: INO, fragment, verifier };
    frozen(&[
        (
            Request::Losses(LossRequest::Lost { fragment, verifier, inos: inos.clone(), any: true }),
            "3d00c801ac0202ac828080808040810101",
        ),
        (Request::Losses(LossRequest::Told { losses: vec![of] }), "3d0101ac828080808040c801ac02"),
        (
            Request::Losses(LossRequest::Left { fragment, verifier, inos, any: false, names: true }),
            "3d02c801ac0202ac82808080804081010001",
        ),
        (
            Request::Losses(LossRequest::List { after: 300, of: Some(INO), look: true }),
            "3d03ac0201ac82808080804001",
        ),
        (Request::Losses(LossRequest::Confirmed { again: true }), "3d0401"),
    ]);
    let loss = Loss { number: 300, of, age_ms: 1, seconds: -1, told: true };
    frozen(&[(Reply::Losses(vec![loss]), "1a01ac02ac828080808040c801ac02010101")]);
}

#[test]
fn replies_have_the_bytes_that_they_always_had() {
    let inode = InodeReply { attr: attr(), live: true, epoch: 7, times: 8 };
    let entry = DirEntry { cookie: 1, name: b"n".to_vec(), attr: attr() };
    frozen(&[
        (Reply::Inode(inode), "02ac82808080804000a403010203040506010501050105010708"),
        (
            Reply::Entries { entries: vec![entry], live: vec![(false, 0)] },
            "030101016eac82808080804000a403010203040506010501050105010000",
        ),
        (Reply::Measure(vec![(INO, 5), (SECOND, 6)]), "0802ac82808080804005810106"),
        (Reply::Objects(vec![(INO, 5), (SECOND, 6)]), "1302ac82808080804005810106"),
        (
            Reply::Mirror { life: 1, whole: false, lacking: vec![INO, SECOND], verifier: Some(2) },
            "15010002ac82808080804081010102",
        ),
        (Reply::Gone(vec![INO, SECOND]), "1602ac8280808080408101"),
        (
            Reply::Granted { grant: grant(), inode, parent: Some(attr()) },
            "1901005c16b9591e925703c7c93c84617292f6ac82808080804000a403010203040506010501050\
             10501070801ac82808080804000a403010203040506010501050105",
        ),
    ]);
}

#[test]
fn sessions_of_storage_nodes_have_the_bytes_that_they_always_had() {
    let member = Member { role: Role::Mirroring, fragment: FRAGMENT, term: 2 };
    assert_eq!(hex(member.session().as_bytes()), "c800000002000000fdfdfdfdfdfdfdfd");
}

#[test]
fn a_claim_has_the_bytes_that_it_always_had() {
    let (mut client, mut node) = UnixStream::pair().unwrap();
    node.write_all(b"FRBY\x02\x00").and_then(|()| node.write_all(&[7; 32])).unwrap();
    let claim =
        Claim { instance: InstanceId::literal("i1"), namespace: 16, fragment: FRAGMENT, session: SESSION };
    let said = std::thread::spawn(move || {
        // As far as the number that the client draws.
        let mut said = [0; 4 + 2 + 3 + 4 + 4 + 16];
        node.read_exact(&mut said).unwrap();
        said
    });
    // Nobody answers.
    greet(&mut client, &Credential::member(key()), &claim).unwrap_err();
    assert_eq!(
        hex(&said.join().unwrap()),
        "46524259020002693110000000c80000007369787465656e206279746573212121"
    );
}

#[test]
fn a_fragments_index_is_a_number_in_json_also_as_a_key() {
    let address = StorageAddress { node: NodeName::literal("n1"), tcp: "127.0.0.1:1".into(), unix: None };
    let moved = Moved { fragment: FRAGMENT, address };
    let expected = r#"{"fragment":200,"address":{"node":"n1","tcp":"127.0.0.1:1","unix":null}}"#;
    assert_eq!(serde_json::to_string(&moved).unwrap(), expected);
    assert_eq!(serde_json::from_str::<Moved>(expected).unwrap(), moved);
    let terms = BTreeMap::from([(FRAGMENT, 3)]);
    assert_eq!(serde_json::to_string(&terms).unwrap(), r#"{"200":3}"#);
}

/// Also one that no caller could have said: what was noted once is read for ever.
#[test]
fn a_name_is_text_wherever_it_is_written() {
    let odd = NodeName::unchecked("a node");
    let places = BTreeMap::from([(odd.clone(), vec![odd.clone()])]);
    let expected = r#"{"a node":["a node"]}"#;
    assert_eq!(serde_json::to_string(&places).unwrap(), expected);
    assert_eq!(serde_json::from_str::<BTreeMap<NodeName, Vec<NodeName>>>(expected).unwrap(), places);
    assert_eq!(format!("{odd} {odd:?} {odd:>8}"), r#"a node "a node"   a node"#);
    assert_eq!(postcard::to_stdvec(&odd).unwrap(), postcard::to_stdvec("a node").unwrap());
}
