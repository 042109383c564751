//! Requests over TCP, believed by a munged of the test's own. Needs the package `munge`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use api::CallError;
use api::binding::binding;
use api::munge::{Munge, MungeError, ServiceUser};
use axum::Router;
use axum::routing::{get, post};
use daemon::client::Client;
use server::{Body, Caller};
use tempfile::TempDir;

/// A running munged; ends with the test.
struct Munged {
    process: Child,
    folder: TempDir,
}

impl Munged {
    fn start() -> Munged {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("key"), [7; 1024]).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(file("key"), private).unwrap();
        let process = Command::new("munged")
            .args(["--foreground", "--force"])
            .args(["--key-file", file("key").to_str().unwrap(), "--socket", file("socket").to_str().unwrap()])
            .args(["--pid-file", file("pid").to_str().unwrap(), "--log-file", file("log").to_str().unwrap()])
            .args(["--seed-file", file("seed").to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .expect("munged is installed");
        let munged = Munged { process, folder };
        while Munge::load(Some(munged.socket())).unwrap().encode(b"").is_err() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        munged
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn munge(&self) -> Munge {
        Munge::load(Some(self.socket())).unwrap()
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A service called `n1`; its address.
async fn serve(munged: &Munged) -> String {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let router = Router::new()
        .route("/uid", get(async |caller: Caller| axum::Json(caller.uid)))
        .route("/echo", post(async |Body(text): Body<String>| axum::Json(text)));
    let listener = server::bind_tcp(&free, munged.munge(), "n1").await.unwrap();
    tokio::spawn(server::serve(vec![listener], router, Vec::new(), std::future::pending()));
    free
}

#[tokio::test]
async fn a_service_knows_who_calls_over_the_network() {
    let munged = Munged::start();
    let client = Client::over_tcp(serve(&munged).await, "n1", munged.munge(), ServiceUser::default());
    assert_eq!(client.get::<u32>("/uid").await.unwrap(), rustix::process::getuid().as_raw());
    assert_eq!(client.post::<_, String>("/echo?a=b", "text").await.unwrap(), "text");
}

#[tokio::test]
async fn another_service_is_not_taken_for_this_one_and_a_request_without_a_credential_is_refused() {
    let munged = Munged::start();
    let address = serve(&munged).await;
    let other = Client::over_tcp(address.as_str(), "n2", munged.munge(), ServiceUser::default());
    let wrong = other.get::<u32>("/uid").await.unwrap_err();
    assert!(matches!(&wrong, CallError::Unreachable { .. }), "{wrong:?}");
    assert!(wrong.to_string().contains("does not prove to be n2"), "{wrong}");
    let mut plain = std::net::TcpStream::connect(&address).unwrap();
    let reply = tokio::task::spawn_blocking(move || {
        use std::io::{Read, Write};
        plain.write_all(b"GET /uid HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        plain.read_to_string(&mut reply).unwrap();
        reply
    });
    assert!(reply.await.unwrap().contains("no MUNGE credential"));
}

/// A request's head with this credential and a body that does not come; the reply.
fn only_a_head(address: &str, credential: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 16000000\r\n\
         Authorization: Munge {credential}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

#[tokio::test]
async fn a_request_that_is_not_believed_is_refused_before_its_body_is_read() {
    let munged = Munged::start();
    let address = serve(&munged).await;
    let other = munged.munge().encode(&binding("n1", "GET", "/uid", b"")).unwrap();
    let replies =
        tokio::task::spawn_blocking(move || [only_a_head(&address, "none"), only_a_head(&address, &other)]);
    let [forged, of_another] = replies.await.unwrap();
    assert!(forged.contains("not_authenticated"), "{forged}");
    assert!(of_another.contains("made for another request"), "{of_another}");
}

#[test]
fn a_credential_is_taken_once_and_for_its_request_only() {
    let munged = Munged::start();
    let munge = munged.munge();
    let bound = binding("n1", "GET", "/uid", b"");
    let credential = munge.encode(&bound).unwrap();
    assert_eq!(munge.decode(&credential, &bound).unwrap().uid, rustix::process::getuid().as_raw());
    let replayed = munge.decode(&credential, &bound).unwrap_err();
    assert!(replayed.to_string().contains("Replayed"), "{replayed}");
    let other = munge.encode(&binding("n1", "GET", "/other", b"")).unwrap();
    assert!(matches!(munge.decode(&other, &bound), Err(MungeError::Misused)));
}

#[test]
fn a_missing_munged_is_named() {
    let munge = Munge::load(Some(Path::new("/nonexistent/munge.socket").into())).unwrap();
    let error = munge.encode(b"").unwrap_err().to_string();
    assert!(error.contains("/nonexistent/munge.socket"), "{error}");
}
