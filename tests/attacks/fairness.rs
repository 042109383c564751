//! One user who asks for so many stages in a shared buffer that others would wait, and who looks at what they do.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use tests::hosts::{User, plain};
use tests::processes::wait_until;

use tests::sharing::{ADA, GRACE, Session, Site, contents};

/// As many stages as ada asks for at once.
const MANY: usize = 20_000;

/// Slower is not done before hers are.
const SOON: Duration = Duration::from_secs(60);

/// Asks control on its machine: method, path, and the body on standard input. Prints the reply's body.
const ASK: &str = r#"
import socket, sys
method, path = sys.argv[1:3]
body = open(sys.argv[3], "rb").read()
one = socket.socket(socket.AF_UNIX); one.connect("/run/forebay/control.sock"); one.settimeout(120)
head = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
one.sendall(head.encode() + body)
reply = b""
while more := one.recv(1 << 20): reply += more
sys.stdout.buffer.write(reply.split(b"\r\n\r\n", 1)[1])
"#;

/// What control replies to a user.
fn ask(site: &Site, user: User, method: &str, path: &str, body: &Value) -> Value {
    let file = site.folder().join(site.name("ask"));
    fs::write(&file, if body.is_null() { String::new() } else { body.to_string() }).expect("ours");
    let words = ["python3", "-c", ASK, method, path, plain(&file)];
    let reply = site.on(&format!("head/{}", user.name), &words);
    serde_json::from_str(&reply.stdout)
        .unwrap_or_else(|error| panic!("{path}: {error}: {}{}", reply.stdout, reply.stderr))
}

fn place(session: &Session<'_>, buffer: &str) -> Value {
    json!({"session": {"token": session.token, "persistent": buffer, "access_mode": "striped"}})
}

/// Ada asks for the whole buffer, and for many files of it that are not there.
fn with_adas_many<'a>(site: &'a Site, buffer: &str) -> (Session<'a>, String) {
    let mut ada = site.session(ADA, buffer, "");
    ada.mount();
    ada.run("chmod 1777 $B; echo hers > $B/hers; chmod 644 $B/hers").expect_success();
    let pfs = plain(&site.pfs(ADA)).to_owned();
    let stage = |kind: &str, pairs: Vec<Value>| {
        let request = json!({"place": place(&ada, buffer), "direction": "out", "kind": kind, "pairs": pairs});
        ask(site, ADA, "POST", "/v1/stages", &request)
    };
    let many = (0..MANY).map(|n| json!({"buffer": format!("private/{n}"), "pfs": format!("{pfs}/{n}")}));
    let asked = stage("file", many.collect());
    assert_eq!(asked["ids"].as_array().map(Vec::len), Some(MANY), "{asked}");
    let all = stage("directory", vec![json!({"buffer": "", "pfs": format!("{pfs}/all")})]);
    assert!(all["ids"].is_array(), "{all}");
    (ada, pfs)
}

/// Grace's stage is done although ada's wait; the workload manager, and grace, are answered meanwhile.
pub fn stages(site: &Site) {
    let buffer = site.shared_buffer();
    let (ada, _) = with_adas_many(site, &buffer);
    let mut grace = site.session(GRACE, &buffer, "");
    grace.mount();
    let pfs = site.pfs(GRACE);
    let to = pfs.join("hers");
    let program = site.program("forebay");
    grace.run(&format!("{program} stage out $B/hers {}", to.display())).expect_success();
    let is_there = wait_until(SOON, || contents(&to).as_deref() == Some("hers\n"));
    assert!(is_there, "grace's stage waits for ada's");

    let left =
        ask(site, ADA, "POST", "/v1/stages/query", &json!({"place": place(&ada, &buffer), "scope": "all"}));
    assert!(left["pending"].as_u64() > Some(1000), "ada's are done: the rest shows nothing: {left}");
    let pools = site.on("head", &[&site.program("dw_wlm_cli"), "--function", "pools"]);
    assert!(pools.stdout.contains("wlm_pool"), "{}{}", pools.stdout, pools.stderr);
    let hers = grace.run(&format!("{program} stage status --json $B")).expect_success();
    let hers: Value = serde_json::from_str(&hers.stdout).expect("it is JSON");
    assert_eq!(hers["stages"].as_array().map(Vec::len), Some(1), "{hers}");
    grace.end();
    ada.end();
    site.destroy(&buffer);
}

/// A list of many stages comes in parts, and each fits into a reply.
pub fn lists(site: &Site) {
    let buffer = site.shared_buffer();
    let (ada, _) = with_adas_many(site, &buffer);
    let query = json!({"place": place(&ada, &buffer), "scope": "all"});
    let first = ask(site, ADA, "POST", "/v1/stages/list", &query);
    assert_eq!(first.as_array().map(Vec::len), Some(1000));
    let all = ada.run(&format!("{} stage status --json $B", site.program("forebay"))).expect_success();
    let all: Value = serde_json::from_str(&all.stdout).expect("it is JSON");
    assert_eq!(all["stages"].as_array().map(Vec::len), Some(MANY + 1));
    let gone = ada.run(&format!("{} stage cancel $B", site.program("forebay")));
    assert!(gone.status.success(), "{}{}", gone.stdout, gone.stderr);
    let left = ask(site, ADA, "POST", "/v1/stages/query", &query);
    assert_eq!(left["pending"].as_u64(), Some(0), "{left}");
    ada.end();
    site.destroy(&buffer);
}

/// Nobody but its owner sets how many stages run in a shared buffer, and he no more than a user may have.
pub fn concurrency(site: &Site) {
    let buffer = site.shared_buffer();
    let (ada, grace) = (site.session(ADA, &buffer, ""), site.session(GRACE, &buffer, ""));
    let set = |session: &Session<'_>, user, concurrency: u32| {
        let wanted = json!({"place": place(session, &buffer), "concurrency": concurrency});
        ask(site, user, "POST", "/v1/stages/concurrency", &wanted)
    };
    for concurrency in [1, 8, 4_000_000_000] {
        let refused = set(&grace, GRACE, concurrency);
        assert_eq!(refused["code"], "not_allowed", "{concurrency}: {refused}");
    }
    assert_eq!(set(&ada, ADA, 4_000_000_000)["code"], "bad_stage");
    assert_eq!(set(&ada, ADA, 8), json!({}));
    grace.end();
    ada.end();
    site.destroy(&buffer);
}

/// What grace is shown of ada's shared buffer says nothing of what ada does with it, nor the other way round.
pub fn looks(site: &Site) {
    let buffer = site.shared_buffer();
    let (ada, hers) = with_adas_many(site, &buffer);
    let grace = site.session(GRACE, &buffer, "");
    let pfs = plain(&site.pfs(GRACE)).to_owned();
    let out = json!({"place": place(&grace, &buffer), "direction": "out", "kind": "file", "due": "at_job_end",
        "pairs": [{"buffer": "hers", "pfs": format!("{pfs}/secret")}]});
    ask(site, GRACE, "POST", "/v1/stages", &out);
    let path = format!("/v1/sessions/{buffer}");
    for path in [path.as_str(), "/v1/status", "/v1/objects"] {
        let seen = ask(site, GRACE, "GET", path, &Value::Null).to_string();
        assert!(seen.contains(&buffer), "the buffer is there: {path}: {seen}");
        for secret in [hers.as_str(), &format!("\"{}\"", ada.token), plain(&ada.mountpoint)] {
            assert!(!seen.contains(secret), "{path}: {secret}: {seen}");
        }
        let seen = ask(site, ADA, "GET", path, &Value::Null).to_string();
        assert!(!seen.contains(&pfs) && !seen.contains(&format!("\"{}\"", grace.token)), "{path}: {seen}");
    }
    let own = ask(site, GRACE, "GET", &path, &Value::Null);
    assert_eq!(own["stages"].as_array().map(Vec::len), Some(1), "{own}");
    assert!(own["instance"]["capacity_bytes"].as_u64() >= Some(64 << 20), "{own}");
    grace.end();
    ada.end();
    site.destroy(&buffer);
}
