//! Who reads all that goes over the wire of a cluster.

use std::fs;
use std::time::Duration;

use tests::hosts::plain;
use tests::processes::wait_until;
use tests::sharing::{ADA, Site};

use crate::pool;
use crate::rotated::{part, thief};

/// Reads all that comes by on a storage node's network until a file is there, and says how many bytes of the data path
/// that was, and which of the marks were in it.
const READER: &str = r#"
import os, socket, struct, sys, time
stop, marks = sys.argv[1], sys.argv[2:]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)
s.bind(("eth0", 0)); s.settimeout(0.2)
open(f"{stop}.ready-{socket.gethostname()}", "w").close()
total, seen, end = 0, set(), time.time() + 240
while time.time() < end:
    try: frame = s.recv(1 << 17)
    except socket.timeout:
        if os.path.exists(stop): break
        continue
    if len(frame) < 54 or frame[12:14] != b"\x08\x00" or frame[23] != 6: continue
    ip = 14 + (frame[14] & 15) * 4
    if 7072 not in struct.unpack(">HH", frame[ip:ip + 4]): continue
    total += len(frame)
    seen |= {mark for mark in marks if mark.encode() in frame}
print(total, *sorted(seen))
"#;

/// Bytes of the file that is staged in, and of the one that is staged out: a buffer has room for those of four lives.
const LEN: usize = 4 << 20;

/// What marks one life of a job: in the name and the bytes of what is staged in, and of what the job writes.
const MARKS: [&str; 4] = ["in-bytes", "in-name", "out-bytes", "out-name"];

/// A job's life with the buffer, stages included; what a reader on either storage node has seen of it. `meanwhile` is
/// what happens while it has the buffer mounted.
fn life(site: &Site, buffer: &str, meanwhile: impl FnOnce()) -> Vec<String> {
    let own = site.name("life");
    let marks = MARKS.map(|mark| format!("{own}-{mark}"));
    let stop = site.folder().join(format!("stop-{own}"));
    let seen = std::thread::scope(|scope| {
        let words =
            ["python3", "-c", READER, plain(&stop)].into_iter().chain(marks.iter().map(String::as_str));
        let words: Vec<&str> = words.collect();
        let readers = ["n1", "n2"].map(|host| {
            let words = words.clone();
            scope.spawn(move || site.on(host, &words).stdout)
        });
        let is_ready = |host| fs::exists(format!("{}.ready-{host}", stop.display())).unwrap_or(false);
        assert!(wait_until(Duration::from_secs(30), || is_ready("n1") && is_ready("n2")), "no reader");
        job(site, buffer, &marks, meanwhile);
        fs::write(&stop, "").expect("ours");
        readers.map(|reader| reader.join().expect("it ends by itself"))
    });
    let mut found = Vec::new();
    for said in seen {
        let mut words = said.split_whitespace();
        let bytes: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or_default();
        assert!(bytes > LEN / 2, "the reader saw next to nothing: {said}");
        found.extend(words.filter_map(|mark| mark.strip_prefix(&format!("{own}-"))).map(str::to_owned));
    }
    found.sort();
    found.dedup();
    found
}

/// A job to which a file is staged in, and that writes one which is staged out.
fn job(
    site: &Site,
    buffer: &str,
    [in_bytes, in_name, out_bytes, out_name]: &[String; 4],
    meanwhile: impl FnOnce(),
) {
    let (pfs, below) = (site.pfs(ADA), format!("$DW_PERSISTENT_STRIPED_{buffer}"));
    let source = format!("{in_bytes}\n").repeat(LEN / in_bytes.len());
    fs::write(pfs.join("source"), &source).expect("ours");
    let stages = format!(
        "#DW stage_in type=file source={0}/source destination={below}/{in_name}\n\
         #DW stage_out type=file source={below}/{out_name} destination={0}/result\n",
        pfs.display(),
    );
    let mut ada = site.session(ADA, buffer, &stages);
    ada.data_in().expect_success();
    ada.mount();
    // It has connections, and so have the nodes among each other.
    ada.run("echo 1 > $B/before && sync $B/before && rm $B/before").expect_success();
    meanwhile();
    let write = format!("yes {out_bytes} | head -c {LEN} > $B/{out_name} && sync $B/{out_name}");
    let read = ada.run(&format!("{write} && cat $B/{in_name}")).expect_success();
    assert!(read.stdout == source, "what was staged in is another");
    ada.data_out().expect_success();
    ada.end();
    let result = fs::read_to_string(pfs.join("result")).expect("it was staged out");
    assert!(
        result.len() == LEN && result.starts_with(&format!("{out_bytes}\n{out_bytes}\n")),
        "another result"
    );
}

/// Whoever reads the wire sees names and bytes of a buffer, unless its pool encrypts: then none, and who has the key
/// and speaks in clear is refused. A buffer from before is encrypted once it has another key, also to who was connected
/// before that.
pub fn wire(site: &Site) {
    let former = site.shared_buffer();
    let nothing_else = || ();
    assert_eq!(life(site, &former, nothing_else), MARKS, "all is in clear");
    pool::set(site, "encrypt", true);
    assert_eq!(life(site, &former, nothing_else), MARKS, "it has the key that it had");
    let rekey = || drop(site.on("head", &[&site.program("forebay"), "rekey", &former]).expect_success());
    assert_eq!(life(site, &former, rekey), ["in-bytes", "in-name"], "what was said before the change");
    assert_eq!(life(site, &former, nothing_else), [""; 0], "it was given another key");
    site.destroy(&former);
    let buffer = site.shared_buffer();
    assert_eq!(life(site, &buffer, nothing_else), [""; 0]);
    let mut part = part(site, "n1");
    part.key = part.key.strip_prefix("encrypted:").expect("the key says so").to_owned();
    for kind in ["node", "mount"] {
        assert_eq!(thief(site, &part, kind, 0).stdout, "refused 8\n");
    }
    site.destroy(&buffer);
    pool::set(site, "encrypt", false);
}
