//! The API as a client sees it: requests over a real socket; and `job_process`, which only looks.

use api::CallError;
use daemon::client::Client;
use serde_json::json;
use server::OpenTo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::Notify;
use wire::control::{ErrorCode, JobProcess, JobSummary, NewToken, RealSize, Status};

use super::*;
use crate::lifecycle::job_process;
use crate::requests::{Handler, router};
use crate::rights::Policy;

pub(super) fn serve(it: &Fixture) -> Client {
    let socket = it.dir.path().join("control.sock");
    let listener = server::bind(&socket, OpenTo::Ourselves).expect("the folder is ours");
    let handler = Handler { app: Arc::clone(&it.app), policy: Policy::Own, ending: Arc::new(Notify::new()) };
    tokio::spawn(server::serve(vec![listener], router(handler), Vec::new(), std::future::pending()));
    Client::new(socket)
}

/// What everybody may read of control.
pub(super) async fn metrics(it: &Fixture) -> String {
    let _client = serve(it);
    let mut stream = UnixStream::connect(it.dir.path().join("control.sock")).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_client_gets_tokens_runs_functions_and_reads_the_status() {
    let it = Fixture::new();
    let client = serve(&it);
    let first: NewToken = client.post("/v1/tokens", &json!({})).await.unwrap();
    let second: NewToken = client.post("/v1/tokens", &json!({})).await.unwrap();
    assert_ne!(first.token, second.token);
    let path = |function: &str| format!("/v1/sessions/{}/{function}", first.token);
    let session: SessionStatus = client.post(&path("setup"), &request(JOB)).await.unwrap();
    assert_eq!(session.phase, Phase::Ready);
    let size: RealSize = client.get(&path("real_size")).await.unwrap();
    assert_eq!((size.capacity, size.units.as_str()), (9538 << 20, "bytes"));
    let status: Status = client.get("/v1/status").await.unwrap();
    assert_eq!((status.sessions.len(), status.pools[0].name.as_str()), (1, "local"));
    let early = client.post::<_, SessionStatus>(&path("pre_run"), &json!({"mountpoint": null})).await;
    assert!(matches!(early, Err(CallError::Refused(error)) if error.code == ErrorCode::WrongPhase));
}

fn job_process(text: &str) -> JobProcess {
    let own = Owner { uid: rustix::process::geteuid().as_raw(), gid: 0 };
    JobProcess { script: request(text).script, owner: own, submitter: None }
}

/// A script with one `stage_in`.
fn staging(kind: &str, source: &Path) -> String {
    format!(
        "#DW jobdw type=scratch access_mode=striped capacity=10GB\n\
         #DW stage_in type={kind} source={} destination=$DW_JOB_STRIPED/a\n",
        source.display()
    )
}

#[tokio::test]
async fn job_process_sums_up_a_good_script_and_allocates_nothing() {
    let it = Fixture::new();
    let summary: JobSummary =
        job_process::run(&it.app, job_process(&staging("directory", it.dir.path()))).await.unwrap();
    assert_eq!((summary.stage_ins, summary.stage_outs, summary.capacity_bytes), (1, 0, 9537 << 20));
    assert!(it.site.world().calls.is_empty());
}

#[tokio::test]
async fn job_process_refuses_sources_that_are_missing_or_of_another_kind() {
    let it = Fixture::new();
    let missing = it.dir.path().join("missing");
    let error = job_process::run(&it.app, job_process(&staging("file", &missing))).await.unwrap_err();
    assert!(error.message.contains("No such file") && error.message.contains("missing"), "{error}");
    let error = job_process::run(&it.app, job_process(&staging("file", it.dir.path()))).await.unwrap_err();
    assert!(error.advice.contains("type=directory"), "{error}");
}

#[tokio::test]
async fn job_process_refuses_a_buffer_larger_than_the_pool() {
    let it = Fixture::new();
    it.site.world().available_bytes = 1 << 30;
    let error = job_process::run(&it.app, job_process(JOB)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::PoolTooSmall);
    assert!(error.message.contains("9.3 GiB") && error.message.contains("1 GiB"), "{error}");
}
