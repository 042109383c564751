//! What one user does who asks so much that others would not be served: programs, for the tests of these attacks and
//! for the bench that times others beside them.

/// What one user does from a compute node: connections on which nothing is asked, heads that do not end, and bodies of
/// 16 MB behind credentials of nobody. It says how many of the first two were closed in the end, and how many of the
/// last were refused before their bodies were read.
pub const OVER_THE_NETWORK: &str = r#"
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
pub const ON_THE_MACHINE: &str = r##"
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

/// Arguments: a folder in a shared buffer, and seconds. Extended attributes of 240 kB on each of 300 files, again and
/// again.
pub const ATTRIBUTES: &str = r#"
import os, sys, time
folder, end = sys.argv[1], time.time() + float(sys.argv[2])
number = 0
while time.time() < end:
    path = f"{folder}/f{number % 300}"
    open(path, "w").close()
    for one in range(4): os.setxattr(path, f"user.{one}", bytes([number % 256]) * 60000)
    number += 1
"#;

/// Arguments: a host, its port, and seconds. Connections by somebody who does not say who he is.
pub const STRANGERS: &str = r#"
import socket, sys, time
host, port, end = sys.argv[1], int(sys.argv[2]), time.time() + float(sys.argv[3])
kept = []
while time.time() < end:
    try: kept.append(socket.create_connection((host, port), 1)); kept[-1].sendall(b"x")
    except OSError: time.sleep(0.01)
    if len(kept) > 800: kept.pop(0).close()
    time.sleep(0.001)
"#;

/// Arguments of the shell: the `forebay` program, a hole of a file, a folder in a shared buffer, and seconds. The file
/// is asked for 150 times, which is more than one user has workers for.
pub const HOLES: &str = r#"
truncate -s 64G "$1"
for number in $(seq 150); do "$0" stage in "$1" "$2/hole$number" >/dev/null 2>&1 & done
sleep "$3"
"#;
