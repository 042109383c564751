//! Users who ask so much of control that nobody else would be answered.

use tests::processes::wait_until;

use crate::site::Site;

/// What one user does from a compute node: connections on which nothing is asked, heads that do not end, and bodies of
/// 16 MB behind credentials of nobody. It says how many of the first two were closed in the end, and how many of the
/// last were refused before their bodies were read.
const OVER_THE_NETWORK: &str = r#"
import os, resource, select, socket, time
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
host, port = os.environ["FOREBAY_CONTROL"].split(":")
def connect(): return socket.create_connection((host, int(port)), 10)
idle = [connect() for _ in range(900)]
halves = [connect() for _ in range(300)]
for half in halves: half.sendall(b"GET /v1/pools HTTP/1.1\r\nHost: a\r\nX-")
refused = 0
for _ in range(60):
    one = connect(); one.settimeout(5)
    one.sendall(b"POST /v1/job_process HTTP/1.1\r\nHost: a\r\nContent-Length: 15900000\r\n")
    one.sendall(b"Authorization: Munge no\r\n\r\n")
    refused += b"not_authenticated" in one.recv(65536); one.close()
end = time.time() + 60
left = {one.fileno(): one for one in idle + halves}
poll = select.poll()
for number in left: poll.register(number, select.POLLIN)
while left and time.time() < end:
    for number, _ in poll.poll(1000):
        try: more = left[number].recv(4096)
        except OSError: more = b""
        if not more: poll.unregister(number); del left[number]
print("left", len(left), "refused", refused)
"#;

/// What one user does on control's own machine: scripts of millions of wrong lines, again and again.
const ON_THE_MACHINE: &str = r##"
import json, socket, threading, time
script = dict(text="#DW x\n" * 2000000, path="/job", workdir="/", job_name="j", user="u")
body = json.dumps(dict(script=script, owner=dict(uid=2002, gid=2002))).encode()
head = f"POST /v1/job_process HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
end, replies = time.time() + 12, []
def ask():
    while time.time() < end:
        one = socket.socket(socket.AF_UNIX); one.connect("/run/forebay/control.sock")
        one.sendall(head + body)
        replies.append(one.recv(65536)); one.close()
threads = [threading.Thread(target=ask) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("other" if any(b"bad_directive" not in reply for reply in replies) else "refused")
"##;

/// Ada and grace do both at once; the workload manager is answered each time, and no node is lost sight of.
pub fn control(site: &Site) {
    std::thread::scope(|scope| {
        let ada = scope.spawn(|| site.on("n3/ada", &["python3", "-c", OVER_THE_NETWORK]));
        let grace = scope.spawn(|| site.on("head/grace", &["python3", "-c", ON_THE_MACHINE]));
        let mut answered = 0;
        while !(ada.is_finished() && grace.is_finished()) {
            let pools = site.on("head", &[&site.program("dw_wlm_cli"), "--function", "pools"]);
            assert!(pools.stdout.contains("wlm_pool"), "{}{}", pools.stdout, pools.stderr);
            assert!(!site.dwstat("nodes").contains("offline"), "{}", site.dwstat("nodes"));
            answered += 1;
        }
        assert!(answered > 10, "it was answered {answered} times only");
        let (ada, grace) = (ada.join().expect("it ends"), grace.join().expect("it ends"));
        assert_eq!(ada.stdout, "left 0 refused 60\n", "{}", ada.stderr);
        assert_eq!(grace.stdout, "refused\n", "{}", grace.stderr);
    });
    assert!(wait_until(std::time::Duration::from_secs(10), || site.dwstat("nodes").contains("n4")));
}
