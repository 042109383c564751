//! Hosts that die, control that dies, and what must not be lost.

use std::fs;
use std::time::{Duration, Instant};

use api::CallError;
use model::Token;
use serde_json::json;
use wire::control::TeardownReply;

use crate::hosts::{Cluster, hosts, nothing};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_is_named_in_bounded_time_and_cleaned_when_it_is_back() {
    let Some(mut it) = Cluster::start().await else { return };
    let job = it.setup("#DW jobdw type=scratch access_mode=striped capacity=16MiB\n");
    let status = it.call("1", "setup", serde_json::to_value(&job).unwrap()).await.unwrap();
    assert_eq!(status.instance.unwrap().nodes, ["n1"], "so that n2 only mounts");
    it.call("1", "data_in", nothing()).await.unwrap();
    it.call("1", "pre_run", hosts(&["n1", "n2"])).await.unwrap();
    it.kill("n2");
    let begin = Instant::now();
    it.call("1", "post_run", nothing()).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(30));
    assert_eq!(it.mounts().len(), 1, "n2's mount went on without its node");
    let _: TeardownReply = it.post("/v1/sessions/1/teardown", &json!({"hurry": false})).await.unwrap();

    it.call("2", "setup", serde_json::to_value(&job).unwrap()).await.unwrap();
    it.call("2", "data_in", nothing()).await.unwrap();
    let error = it.call("2", "pre_run", hosts(&["n1", "n2"])).await.unwrap_err();
    assert!(matches!(&error, CallError::Refused(error) if error.message.contains("node n2")), "{error:?}");
    let status = it.status().await;
    let n2 = status.nodes.iter().find(|node| node.name == "n2").unwrap();
    assert!(!n2.online && n2.last_error.is_some());

    it.start_node("n2");
    let begin = Instant::now();
    while !it.mounts().is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "still mounted: {:?}", it.mounts());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    it.call("2", "pre_run", hosts(&["n1", "n2"])).await.unwrap();
    let _: TeardownReply = it.post("/v1/sessions/2/teardown", &json!({"hurry": true})).await.unwrap();
    assert!(it.mounts().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_owner_may_not_read_is_not_staged_in() {
    let Some(it) = Cluster::start().await else { return };
    fs::write(it.pfs("secret"), "of root").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(it.pfs("secret"), private).unwrap();
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_in type=file source={} destination=$DW_JOB_STRIPED/stolen\n",
        it.pfs("secret").display()
    );
    let job = serde_json::to_value(it.setup(&directives)).unwrap();
    it.call("3", "setup", job).await.unwrap();
    let error = it.call("3", "data_in", nothing()).await.unwrap_err();
    assert!(
        matches!(&error, CallError::Refused(error) if error.message.contains("Permission denied")),
        "{error:?}"
    );
    let _: TeardownReply = it.post("/v1/sessions/3/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_owed_is_kept_under_another_token_and_staged_out_after_control_died() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=16MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/output destination={}/output\n",
        it.pfs("missing").display()
    );
    let job = serde_json::to_value(it.setup(&directives)).unwrap();
    it.call("5", "setup", job).await.unwrap();
    it.call("5", "data_in", nothing()).await.unwrap();
    it.call("5", "pre_run", hosts(&["n2"])).await.unwrap();
    fs::write(it.mount_root("n2").join("5/striped/output"), "precious").unwrap();
    it.kill("control");
    it.start_control();
    it.until("control knows its nodes again", |status| status.nodes.iter().all(|node| node.online)).await;
    it.call("5", "post_run", nothing()).await.unwrap();
    // A file where the folder should be.
    fs::write(it.pfs("missing"), "").unwrap();
    it.call("5", "data_out", nothing()).await.unwrap_err();
    let reply: TeardownReply = it.post("/v1/sessions/5/teardown", &json!({"hurry": false})).await.unwrap();
    assert_eq!(reply.renamed.as_ref().map(Token::as_str), Some("5-kept-1"));
    let gone = it.post::<_, TeardownReply>("/v1/sessions/5/teardown", &json!({"hurry": false})).await;
    assert!(matches!(&gone, Err(CallError::Refused(error)) if error.message.contains("token not found")));
    let status = it.status().await;
    assert_eq!(status.sessions[0].quarantined.as_ref().map(Token::as_str), Some("5"));
    assert!(status.sessions[0].bytes_dirty > 0);

    fs::remove_file(it.pfs("missing")).unwrap();
    it.call("5-kept-1", "data_out", nothing()).await.unwrap();
    assert_eq!(fs::read_to_string(it.pfs("missing/output")).unwrap(), "precious");
    let path = "/v1/sessions/5-kept-1/teardown";
    let reply: TeardownReply = it.post(path, &json!({"hurry": false})).await.unwrap();
    assert_eq!(reply.kept, None);
    assert_eq!(it.status().await.pools[0].free, 32);
}
