//! The audit log of a cluster: who did what with whose data.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::hosts::{Cluster, OWNER, hosts, nothing};

/// Its lines now.
fn lines(it: &Cluster) -> Vec<Value> {
    let text = fs::read_to_string(it.path("audit.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_did_what_with_whose_data_is_written_down() {
    let Some(it) = Cluster::start().await else { return };
    fs::write(it.pfs("in"), "six by").unwrap();
    let stage =
        format!("#DW stage_in type=file source={} destination=$DW_JOB_STRIPED/in", it.pfs("in").display());
    let setup = it.setup(&format!("#DW jobdw capacity=64MiB type=scratch access_mode=striped\n{stage}\n"));
    it.call("101", "setup", json!(setup)).await.unwrap();
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    // As logrotate does.
    fs::rename(it.path("audit.jsonl"), it.path("audit.jsonl.1")).unwrap();
    it.call("101", "post_run", nothing()).await.unwrap();
    it.call("999", "data_out", nothing()).await.unwrap_err();
    it.call("101", "teardown", nothing()).await.unwrap_err();

    let after = lines(&it);
    fs::rename(it.path("audit.jsonl.1"), it.path("audit.jsonl")).unwrap();
    let before = lines(&it);
    let mode = fs::metadata(it.path("audit.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it names the files of all users");
    let requests = |lines: &[Value]| -> Vec<Value> {
        let requests = lines.iter().filter(|line| line["event"] == "request");
        requests
            .map(|line| json!([line["path"], line["uid"], line["token"], line["owner"], line["error"]]))
            .collect()
    };
    let of = |function| json!([format!("/v1/sessions/101/{function}"), 0, "101", OWNER.uid, null]);
    assert_eq!(requests(&before), ["setup", "data_in", "pre_run"].map(of));
    let unknown = json!(["/v1/sessions/999/data_out", 0, null, null, "no_such_session"]);
    assert_eq!(requests(&after), [of("post_run"), unknown, of("teardown")]);

    let transfers: Vec<&Value> = before.iter().filter(|line| line["event"] == "transfer").collect();
    let [transfer] = transfers[..] else { panic!("one file was staged: {before:?}") };
    let said = ["token", "uid", "direction", "pfs_path", "state", "bytes"].map(|key| transfer[key].clone());
    let pfs = it.pfs("in");
    assert_eq!(
        said.to_vec(),
        [json!("101"), json!(OWNER.uid), json!("in"), json!(pfs), json!("complete"), json!(6)]
    );
}
