//! Whatever comes in over the network: a storage node lives, serves its clients, and keeps to its memory.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use model::{FragmentIndex, Ino, InstanceId, SessionId};
use wire::data::Credential;
use wire::data::dial::{Via, dial};
use wire::data::hello::{Claim, Key};
use wire::data::message::{AllocateMode, ClosedHandle, RenameMode, Written, XattrMode};
use wire::data::{Creator, FileKind, FileLock, LockKind, Request, SetAttr, Stream, Time};
use wire::node::StorageAddress;

use crate::setting;
use tests::random::Random;
use tests::site::{KEY, Plan, Site};

const PLAN: Plan =
    Plan { storage_nodes: 1, mounts: 1, volume: "directory", grace_ms: 10_000, capacity: 64 << 20 };

/// What a storage node may take, KiB: its own, and 2 MiB for each of the connections that a test has at once.
const MEMORY_MAX_KIB: u64 = 160 << 10;

/// Connections of each kind in a short run.
const ROUNDS: u64 = 60;

/// Ends the test when the node hangs.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn strangers_neither_crash_a_node_nor_hold_it_up() {
    under_attack(|address, random| {
        let mut stream = TcpStream::connect(&address.tcp).expect("the node listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has time-outs");
        let mut bytes = tests::tree::bytes(random.below(u64::MAX), random.below(3000) as usize);
        if random.below(2) == 0 && bytes.len() > 6 {
            // As far as its magic and version it looks like one of ours.
            bytes[..6].copy_from_slice(b"FRBY\x01\0");
        }
        // It may hang up at any moment.
        let _sent = stream.write_all(&bytes);
        let _closed = stream.shutdown(std::net::Shutdown::Write);
        let _answer = stream.read_to_end(&mut Vec::new());
    });
}

#[test]
fn malformed_frames_from_a_client_with_the_key_end_its_connection_and_no_more() {
    under_attack(|address, random| {
        let Some(mut stream) = greeted(address, random) else { return };
        for _ in 0..1 + random.below(4) {
            let mut frame = frame(&any_request(random), random);
            for _ in 0..random.below(6) {
                let at = random.below(frame.len() as u64) as usize;
                frame[at] = random.below(256) as u8;
            }
            frame.truncate(1 + random.below(2 * frame.len() as u64) as usize);
            let _sent = stream.write_all(&frame);
        }
        hang_up(stream);
    });
}

#[test]
fn requests_that_make_no_sense_are_answered() {
    under_attack(|address, random| {
        let Some(mut stream) = greeted(address, random) else { return };
        for _ in 0..20 {
            if stream.write_all(&frame(&any_request(random), random)).is_err() {
                break;
            }
        }
        hang_up(stream);
    });
}

/// Lets four threads do this to a node many times; then it must serve its mount as before.
fn under_attack(attack: impl Fn(&StorageAddress, &mut Random) + Sync) {
    let seed = setting("FOREBAY_CRASH_SEED", u64::from(std::process::id()));
    let rounds = setting("FOREBAY_CRASH_HOSTILE_ROUNDS", ROUNDS);
    eprintln!("seed {seed}");
    let site = Site::start(PLAN, None);
    let file = site.mountpoint(0).join("file");
    fs::write(&file, vec![7; 300_000]).expect("the node is there");
    let health = site.storage[0].call("GET", "/v1/health", None);
    let address: StorageAddress = serde_json::from_value(health["data"].clone()).expect("it is an address");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (attack, address) = (&attack, &address);
            scope.spawn(move || {
                let mut random = Random::new(seed + (thread << 32));
                (0..rounds).for_each(|_| attack(address, &mut random));
            });
        }
    });
    assert_eq!(fs::read_dir(site.mountpoint(0)).map(drop).map_err(|e| e.to_string()), Ok(()));
    let now = site.storage[0].call("GET", "/v1/health", None);
    assert_eq!(now["pid"], health["pid"], "the node is another");
    assert!(!site.storage[0].log().contains("panicked"), "{}", site.storage[0].log());
    let status = fs::read_to_string(format!("/proc/{}/status", now["pid"])).expect("the node lives");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("proc(5)");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("proc(5)");
    assert!(peak < MEMORY_MAX_KIB, "the node took {peak} KiB");
}

/// A connection after the handshake, with a session of its own or another's.
fn greeted(address: &StorageAddress, random: &mut Random) -> Option<Stream> {
    let session = SessionId([random.below(3) as u8; 16]);
    let claim =
        Claim { instance: InstanceId::literal("i1"), namespace: 0, fragment: FragmentIndex(0), session };
    let key = Credential::member(Key::from_hex(KEY).expect("it is a key"));
    // Refused when there are too many at once.
    let (connection, _) = dial(address, Via::Tcp, &key, &claim).ok()?;
    let stream = connection.into_stream().expect("a socket has time-outs");
    stream.set_timeout(Some(PATIENCE)).expect("a socket has time-outs");
    Some(stream)
}

/// Takes what the node still answers.
fn hang_up(mut stream: Stream) {
    if let Stream::Tcp(stream) = &stream {
        let _closed = stream.shutdown(std::net::Shutdown::Write);
    }
    let _answer = std::io::copy(&mut stream, &mut std::io::sink());
}

/// A frame as it should be, with a payload that may not belong there.
fn frame(request: &Request, random: &mut Random) -> Vec<u8> {
    let meta = wire::data::connection::encode(request);
    let payload = tests::tree::bytes(1, [0, 0, 10, 70_000][random.below(4) as usize]);
    let mut frame = Vec::new();
    frame.extend_from_slice(&(meta.len() as u32).to_le_bytes());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(&random.below(1000).to_le_bytes());
    frame.extend_from_slice(&meta);
    frame.extend_from_slice(&payload);
    frame
}

/// Any request with numbers that hurt.
fn any_request(random: &mut Random) -> Request {
    let mut number = || {
        let edges = [0, 1, 2, 3, 4096, 1 << 20, 1 << 32, (1 << 63) - 1, 1 << 63, u64::MAX - 1, u64::MAX];
        edges[random.below(edges.len() as u64) as usize]
    };
    let (ino, offset, size, other) = (Ino(number()), number(), number(), number());
    let name = b"name".repeat(random.below(100) as usize);
    let time = Time { seconds: other.cast_signed(), nanos: size as u32 };
    let lock = FileLock { kind: LockKind::Exclusive, start: offset, end: size, pid: 1, whole_file: false };
    let creator = Creator { uid: 0, gid: 0, umask: 0 };
    let set = SetAttr { size: Some(size), mtime: Some(time), ..SetAttr::default() };
    let written = Some(Written { end: size, mtime: time, epoch: other, times: other });
    let requests = [
        Request::Lookup { parent: ino, name: name.clone() },
        Request::SetAttr { ino, set },
        Request::Create { parent: ino, name: name.clone(), mode: other as u32, creator },
        Request::Make {
            parent: ino,
            name: name.clone(),
            kind: FileKind::Symlink,
            mode: other as u32,
            rdev: size,
            target: name.clone(),
            creator,
        },
        Request::Link { ino, parent: Ino(other), name: name.clone() },
        Request::Rename {
            parent: Ino(1),
            name: b"file".to_vec(),
            new_parent: ino,
            new_name: name.clone(),
            mode: RenameMode::Exchange,
        },
        Request::ReadDir { ino, cookie: offset },
        Request::Open { ino, write: true },
        Request::Close { handles: vec![ClosedHandle { ino, write: true, written }; 3] },
        Request::Settle { ino, size, mtime: time, epoch: other },
        Request::Reclaim { opens: vec![(ino, size as u32, other as u32); 3] },
        Request::SetXattr { ino, name, value: vec![1; (size % 70_000) as usize], mode: XattrMode::Any },
        Request::Read { ino, offset, len: size as u32 },
        Request::Write { ino, offset },
        Request::WriteExtents { ino, extents: vec![(offset, size as u32); 3] },
        Request::Resize { ino, size },
        Request::Allocate { ino, offset, len: size, mode: AllocateMode::Zero },
        Request::Allocate { ino, offset, len: size, mode: AllocateMode::PunchHole },
        Request::NextData { ino, offset },
        Request::Destroy { ino: ino.max(Ino(100)) },
        Request::TestLock { ino, owner: other, lock },
        Request::SetLock { ino, owner: other, lock, wait_ms: 1 },
        Request::ReclaimLocks { locks: vec![(ino, other, lock); 5] },
        Request::ReserveEnd { ino, size, len: other },
        Request::Fence,
        Request::Goodbye,
    ];
    let which = random.below(requests.len() as u64) as usize;
    requests[which].clone()
}
