//! By what control judges whether a node may be given up: by the last word of each part that was served.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde_json::json;
use wire::control::TeardownReply;

use crate::lost::{contents, give_up, is_whole, mirrored};

/// What control heard last of a node before its end is what counts, not what a start said that served nothing.
async fn is_given_up_after_a_start_that_served_nothing(damaged: &str) {
    let Some((mut it, place)) = mirrored().await else { return };
    let file = Arc::new(File::create_new(place.join("file")).unwrap());
    file.write_all_at(&contents(1), 0).unwrap();
    file.sync_all().unwrap();
    it.until("both copies are there", is_whole).await;
    let instance = it.status().await.sessions[0].instance.clone().unwrap().id;

    // The write is answered by n1 alone, after control has heard that it is.
    it.kill("n2");
    let alone = file.clone();
    std::thread::spawn(move || alone.write_all_at(&[8; 4096], 0)).join().unwrap().unwrap();
    it.kill("n1");
    let spoilt = it.fragment("n1", &instance).join(damaged);
    let good = fs::read(&spoilt).unwrap();
    fs::write(&spoilt, &good[1..]).unwrap();
    it.start_node("n1");
    it.until("n1 does not serve its part", |status| {
        let is_online = status.nodes.iter().any(|node| node.name == "n1" && node.online);
        let instance = status.sessions[0].instance.as_ref();
        is_online && instance.is_some_and(|instance| instance.unserved.iter().any(|part| part.node == "n1"))
    })
    .await;
    it.kill("n1");
    it.start_node("n2");
    let lost = give_up(&it, "n1", "n2").await;
    assert!(lost.moved.is_empty(), "a mirror that lacks an answered write was taken: {lost:?}");
    assert!(lost.at_risk[0].why.contains("node n2 did not have all"), "{lost:?}");

    fs::write(&spoilt, good).unwrap();
    it.start_node("n1");
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == [8; 4096], "a write that was answered is gone");
    drop(file);
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_mirror_is_not_taken_where_the_lost_node_could_not_read_its_specification() {
    is_given_up_after_a_start_that_served_nothing("spec.json").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_mirror_is_not_taken_where_the_lost_node_could_not_read_its_log() {
    is_given_up_after_a_start_that_served_nothing("namespaces/0/meta.log").await;
}
