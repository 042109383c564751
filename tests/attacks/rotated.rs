//! The key of a buffer that somebody has got hold of is changed while a job works.

pub mod between;
pub mod munge;
pub mod put_back;

use std::fs;
use std::time::Duration;

use tests::cluster::Outcome;
use tests::hosts::plain;
use tests::processes::wait_until;

use tests::sharing::{ADA, Site};

/// Who has the key and speaks to a storage node: as another storage node, or by a credential for a mount that he makes
/// himself. Says `in` when he is let in, or with which code he is refused; waits so many seconds for being cut off.
const THIEF: &str = r#"
import hashlib, hmac, os, socket, struct, sys
host, instance, fragment, key, kind, wait = sys.argv[1:]
mac = lambda secret, *parts: hmac.new(secret, b"".join(parts), hashlib.sha256).digest()
key, fragment = bytes.fromhex(key), struct.pack("<I", int(fragment))
# A mount of namespace 0, for as long as the instance lives.
capability = b"" if kind == "node" else b"\x01\x00\x00"
secret = mac(key, b"forebay credential", capability) if capability else key
s = socket.create_connection((host, 7072)); s.settimeout(10)
def take(n):
    got = b""
    while len(got) < n:
        more = s.recv(n - len(got))
        if not more: print("closed"); raise SystemExit
        got += more
    return got
nonce = take(38)[6:]; own, session = os.urandom(32), os.urandom(16)
proof = mac(secret, b"client", nonce, own, session, struct.pack("<I", 0), fragment, instance.encode())
s.sendall(b"FRBY" + struct.pack("<H", 2) + bytes([len(instance)]) + instance.encode() + struct.pack("<I", 0)
          + fragment + session + own + struct.pack("<H", len(capability)) + capability + proof)
status = take(41)[0]
print("in" if status == 0 else f"refused {status}", flush=True)
if status == 0 and int(wait):
    s.settimeout(int(wait))
    try: print("cut off" if s.recv(1) == b"" else "heard")
    except socket.timeout: print("still in")
    except ConnectionError: print("cut off")
"#;

/// A job that keeps one file open, writes, reads back what it wrote, and holds a lock, until it is told to stop.
const JOB: &str = r#"
import fcntl, os, sys, time
folder = sys.argv[1]
f = os.open(folder + "/log", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(f, fcntl.LOCK_EX)
gone = os.open(folder + "/gone", os.O_RDWR | os.O_CREAT, 0o600)
os.write(gone, b"without a name"); os.unlink(folder + "/gone")
block = lambda n: n.to_bytes(8, "little") * 8192
n = 0
# Where the test failed nobody stops it.
end = time.time() + 300
while not os.path.exists(folder + "/stop") and time.time() < end:
    os.pwrite(f, block(n), n * 65536 % (8 << 20))
    assert os.pread(f, 65536, n * 65536 % (8 << 20)) == block(n), n
    os.close(os.open(f"{folder}/new-{n % 16}", os.O_RDWR | os.O_CREAT, 0o600))
    if n % 8 == 0: os.fsync(f)
    n += 1; time.sleep(0.005)
os.fsync(f)
assert os.pread(gone, 64, 0) == b"without a name"
print("whole" if n > 20 else n)
"#;

/// What a storage node keeps of its part of the buffer.
pub struct Part {
    host: String,
    instance: String,
    fragment: u64,
    /// The key.
    pub key: String,
}

/// The part that `host` has of the newest buffer.
pub fn part(site: &Site, host: &str) -> Part {
    part_with(site, host, "key")
}

/// The same, with the key that is noted under this name.
fn part_with(site: &Site, host: &str, name: &str) -> Part {
    let folders = fs::read_dir(site.state_of(host).join("fragments")).expect("it stores").flatten();
    let specs = folders.filter_map(|fragment| fs::read(fragment.path().join("spec.json")).ok());
    let specs = specs.filter_map(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let parts = specs.map(|spec| Part {
        host: host.to_owned(),
        instance: spec["instance"].as_str().unwrap_or_default().to_owned(),
        fragment: spec["index"].as_u64().unwrap_or_default(),
        key: spec[name].as_str().unwrap_or_default().to_owned(),
    });
    parts.max_by_key(|part| part.instance[1..].parse::<u64>().unwrap_or_default()).expect("it has a part")
}

/// What becomes of who shows the key of a part to its node; waits so long for being cut off.
pub fn thief(site: &Site, of: &Part, kind: &str, wait_s: u64) -> Outcome {
    let (fragment, wait) = (of.fragment.to_string(), wait_s.to_string());
    site.on("n3/grace", &["python3", "-c", THIEF, &of.host, &of.instance, &fragment, &of.key, kind, &wait])
}

fn rekey(site: &Site, buffer: &str) {
    site.on("head", &[&site.program("forebay"), "rekey", buffer]).expect_success();
}

/// While a job works the key is changed, twice: the job notices nothing, and who has the former key is cut off and not
/// let in any more, also after a restart of the node.
pub fn key(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    let (program, old) = (site.folder().join("keeps-open.py"), part(site, "n1"));
    fs::write(&program, JOB).expect("ours");
    assert_eq!(thief(site, &old, "node", 0).stdout, "in\n", "the rest shows nothing");
    std::thread::scope(|scope| {
        let job = scope.spawn(|| ada.run(&format!("python3 {} $B", plain(&program))));
        let inside = scope.spawn(|| thief(site, &old, "mount", 60));
        assert!(wait_until(Duration::from_secs(10), || ada.run("ls $B").stdout.contains("new-15")));
        rekey(site, &buffer);
        assert_eq!(inside.join().expect("it ends by itself").stdout, "in\ncut off\n");
        rekey(site, &buffer);
        assert_eq!(thief(site, &old, "node", 0).stdout, "refused 3\n");
        assert_eq!(thief(site, &old, "mount", 0).stdout, "refused 3\n");
        site.node("n1").kill();
        assert!(wait_until(Duration::from_secs(30), || thief(site, &old, "node", 0).stdout == "refused 3\n"));
        ada.run("rm $B/new-*; touch $B/stop").expect_success();
        let done = job.join().expect("it ends by itself");
        assert_eq!(done.stdout, "whole\n", "{}", done.stderr);
    });
    assert_eq!(thief(site, &part(site, "n1"), "node", 0).stdout, "in\n", "the new one is taken");
    ada.end();
    let mut next = site.session(ADA, &buffer, "");
    next.mount();
    next.run("test -s $B/log").expect_success();
    next.end();
    site.destroy(&buffer);
}

/// Nobody but an operator changes a key.
pub fn by_others(site: &Site) {
    let buffer = site.shared_buffer();
    let asked = site.on("n3/ada", &[&site.program("forebay"), "rekey", &buffer]);
    assert!(asked.stderr.contains("you may not change the key of a buffer"), "{}", asked.stderr);
    site.destroy(&buffer);
}
