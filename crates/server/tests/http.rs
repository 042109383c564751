//! The client and the server together, over a real unix socket.

use std::path::{Path, PathBuf};

use api::CallError;
use axum::routing::{get, post};
use axum::{Json, Router};
use daemon::client::Client;
use daemon::error::site;
use serde_json::{Value, json};
use server::{BindError, Body, OpenTo, Refusal};
use tokio::sync::oneshot;
use wire::control::{CLI, ErrorCode, Setup, VolumeKind};

fn router() -> Router {
    Router::new()
        .route("/echo", post(async |Body(value): Body<Value>| Json(value)))
        .route("/setup", post(async |Body(setup): Body<Setup>| Json(setup)))
        .route("/full", get(async || Refusal(site(ErrorCode::NodeDisk, "the disk is full", "free some"))))
        .route("/number", get(async || Json(7u32)))
        .route("/text", get(async || "no JSON"))
        .route("/never", get(async || std::future::pending::<Json<u32>>().await))
}

/// Serves until the sender is dropped or used.
fn start(socket: &Path) -> (oneshot::Sender<()>, tokio::task::JoinHandle<std::io::Result<()>>) {
    let listener = server::bind(socket, OpenTo::Ourselves).expect("the folder is empty");
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(server::serve(vec![listener], router(), Vec::new(), async {
        let _ = stopped.await;
    }));
    (stop, task)
}

fn socket(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("s.sock")
}

#[tokio::test]
async fn a_body_goes_there_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let _server = start(&socket(&dir));
    let sent = json!({"text": "a\nb", "list": [1, 2]});
    let back: Value = Client::new(socket(&dir)).post("/echo", &sent).await.unwrap();
    assert_eq!(back, sent);
}

#[tokio::test]
async fn a_refusal_comes_back_as_the_same_error() {
    let dir = tempfile::tempdir().unwrap();
    let _server = start(&socket(&dir));
    let error = Client::new(socket(&dir)).get::<u32>("/full").await.unwrap_err();
    assert!(
        matches!(error, CallError::Refused(e) if e == site(ErrorCode::NodeDisk, "the disk is full", "free some"))
    );
}

#[tokio::test]
async fn wrong_paths_bodies_and_replies_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let _server = start(&socket(&dir));
    let client = Client::new(socket(&dir));
    let route = client.get::<u32>("/nowhere").await.unwrap_err();
    assert!(matches!(route, CallError::Refused(e) if e.code == ErrorCode::NoSuchRoute));
    let reply = client.get::<u32>("/text").await.unwrap_err();
    assert!(matches!(reply, CallError::Garbled { .. }));
}

#[tokio::test]
async fn what_a_newer_or_older_caller_says_is_understood_but_for_words_that_are_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let _server = start(&socket(&dir));
    let client = Client::new(socket(&dir));
    let script = json!({"text": "", "path": "/j", "workdir": "/", "job_name": "j", "user": "u"});
    let older =
        json!({"owner": {"uid": 1, "gid": 1}, "script": script, "fragments": null, "volume": "image"});
    let with = |key: &str, value: Value| {
        let mut changed = older.clone();
        changed[key] = value;
        changed
    };
    let read: Setup = client.post("/setup", &older).await.unwrap();
    assert_eq!((read.caller.as_str(), read.hosts), (CLI, Vec::new()), "what came later has a default");
    let read: Setup = client.post("/setup", &with("colour", json!("blue"))).await.unwrap();
    assert_eq!(read.volume, Some(VolumeKind::Image), "a field that is not known is ignored");
    for wrong in [with("volume", json!("tape")), json!({"owner": {"uid": 1, "gid": 1}})] {
        let refused = client.post::<_, Setup>("/setup", &wrong).await.unwrap_err();
        assert!(matches!(&refused, CallError::Refused(e) if e.code == ErrorCode::BadRequest), "{refused}");
    }
    let garbled = client.post::<_, VolumeKind>("/echo", &json!("tape")).await.unwrap_err();
    assert!(matches!(garbled, CallError::Garbled { .. }));
}

#[tokio::test]
async fn without_a_server_the_call_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let error = Client::new(socket(&dir)).get::<u32>("/number").await.unwrap_err();
    assert!(
        matches!(error, CallError::Unreachable { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound)
    );
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(socket(&dir)).unwrap());
    let _server = start(&socket(&dir));
    assert!(matches!(server::bind(&socket(&dir), OpenTo::Ourselves), Err(BindError::InUse { .. })));
    assert_eq!(Client::new(socket(&dir)).get::<u32>("/number").await.unwrap(), 7);
}

#[tokio::test]
async fn the_socket_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let _server = start(&socket(&dir));
    assert_eq!(socket(&dir).metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_path_that_fits_no_socket_says_what_to_do() {
    let path = Path::new("/").join("x".repeat(120)).join("s.sock");
    assert!(server::bind(&path, OpenTo::Ourselves).unwrap_err().to_string().contains("the kernel takes 107"));
}

#[tokio::test]
async fn a_request_that_never_ends_does_not_hold_up_the_end_of_service() {
    let dir = tempfile::tempdir().unwrap();
    let (stop, server) = start(&socket(&dir));
    let client = Client::new(socket(&dir));
    let waiting = tokio::spawn(async move { client.get::<u32>("/never").await });
    while !waiting.is_finished() && Client::new(socket(&dir)).get::<u32>("/number").await.is_err() {}
    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    waiting.abort();
}
