//! Who takes a node's place.

use std::time::Duration;

use tests::processes::wait_until;

use tests::sharing::{ADA, Site};

/// What an ordinary user runs on a storage node: it takes the port of the data path while the node is away, welcomes
/// whoever comes as the protocol wants it, without the key, and says what it hears afterwards.
const IMPOSTOR: &str = r#"
import socket, struct, time, os
end = time.time() + 30
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        s.bind(("0.0.0.0", 7072)); break
    except OSError:
        if time.time() > end: print("no port"); raise SystemExit
s.listen(64); s.settimeout(1)
end = time.time() + 4
seen = heard = 0
while time.time() < end:
    try: c, _ = s.accept()
    except socket.timeout: continue
    c.settimeout(1)
    try:
        c.sendall(b"FRBY" + struct.pack("<H", 2) + os.urandom(32))
        if c.recv(4096)[:4] == b"FRBY":
            seen += 1
            c.sendall(b"\0" + struct.pack("<Q", 7) + os.urandom(32))
            heard += len(c.recv(4096))
    except OSError: pass
    c.close()
print("seen" if seen else "alone", "heard", heard)
"#;

/// The same for the API: it proves to be the node by a credential of its own, and counts what it is asked besides.
const IMPOSTOR_OF_API: &str = r#"
import json, socket, subprocess, time
end = time.time() + 30
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
while True:
    try:
        s.bind(("0.0.0.0", 7071)); break
    except OSError:
        if time.time() > end: print("no port"); raise SystemExit
s.listen(64); s.settimeout(1)
end = time.time() + 8
seen, others = 0, []
while time.time() < end:
    try: c, _ = s.accept()
    except socket.timeout: continue
    c.settimeout(1)
    try:
        while True:
            heard = c.recv(65536).decode()
            if not heard: break
            path = heard.split(" ")[1]
            if not path.startswith("/v1/proof/"):
                others.append(heard); break
            seen += 1
            text = "forebay proof 1\nn2\n" + path.rsplit("/", 1)[1] + "\n"
            credential = subprocess.run(['munge'], input=text.encode(), capture_output=True).stdout.decode()
            body = json.dumps({"credential": credential.strip()})
            c.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    except OSError: pass
    c.close()
print("seen" if seen else "alone", "asked", others)
"#;

/// A storage node is killed, and before it is back a user has the port of its API: control tells him nothing, makes
/// buffers elsewhere, and says who is there.
pub fn api_port(site: &Site) {
    std::thread::scope(|scope| {
        let impostor = scope.spawn(|| site.on("n2/grace", &["python3", "-c", IMPOSTOR_OF_API]));
        std::thread::sleep(Duration::from_millis(500));
        site.node("n2").kill();
        let is_found_out =
            || nodes_of(site).contains("a process of user 2002 listens there in the place of n2");
        assert!(wait_until(Duration::from_secs(10), is_found_out), "{}", nodes_of(site));
        let buffer = site.shared_buffer_on_who_is_there();
        site.destroy(&buffer);
        let said = impostor.join().expect("it ends by itself");
        assert_eq!(said.stdout, "seen asked []\n", "{}", said.stderr);
    });
    let is_back = || !nodes_of(site).contains("in the place of");
    assert!(wait_until(Duration::from_secs(30), is_back), "{}", nodes_of(site));
}

/// A storage node is killed, and before it is back a user has its port: the job's mount sends it nothing, waits, and
/// reads what it wrote when the node has its port again.
pub fn data_port(site: &Site) {
    let buffer = site.shared_buffer();
    let mut ada = site.session(ADA, &buffer, "");
    ada.mount();
    ada.run("seq 200000 > $B/numbers; sync $B/numbers").expect_success();
    std::thread::scope(|scope| {
        let impostor = scope.spawn(|| site.on("n2/grace", &["python3", "-c", IMPOSTOR]));
        std::thread::sleep(Duration::from_millis(500));
        site.node("n2").kill();
        let read = scope.spawn(|| ada.run("seq 200000 | cmp - $B/numbers && echo same"));
        let said = impostor.join().expect("it ends by itself");
        assert_eq!(said.stdout, "seen heard 0\n", "{}", said.stderr);
        assert_eq!(read.join().expect("it ends").stdout, "same\n");
    });
    let is_back = || site.dwstat("nodes").contains("n2");
    assert!(wait_until(Duration::from_secs(30), is_back), "n2 is not back");
    ada.end();
    site.destroy(&buffer);
}

/// What an operator sees of the nodes.
fn nodes_of(site: &Site) -> String {
    let status = site.on("head", &[&site.program("forebay"), "status", "--json"]);
    status.stdout + &status.stderr
}
