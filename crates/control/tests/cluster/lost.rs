//! A host is lost for good, with its flash: an operator gives it up, and jobs go on.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;

use daemon::http::CallError;
use serde_json::json;
use wire::control::{Lost, Status, TeardownReply};

use crate::hosts::{Cluster, hosts, nothing};

/// Both copies of everything are there.
fn is_whole(status: &Status) -> bool {
    let instance = status.sessions.first().and_then(|session| session.instance.as_ref());
    instance.is_some_and(|instance| {
        let copies = instance.copies.iter().all(|copy| copy.whole);
        copies && instance.mirrors.len() == 2 && instance.mirrors.iter().all(|mirror| mirror.whole)
    })
}

fn contents(n: u8) -> Vec<u8> {
    (0..3_000_000_u32).map(|i| (i % 251) as u8 ^ n).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_lost_for_good_is_replaced_under_a_job_and_nothing_is_missing() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB redundancy=mirror\n";
    let setup = serde_json::to_value(it.setup(directives)).unwrap();
    let instance = it.call("101", "setup", setup).await.unwrap().instance.unwrap();
    assert_eq!((instance.capacity_bytes, instance.allocated_bytes), (64 << 20, 128 << 20));
    assert_eq!(instance.nodes, ["n1", "n2"]);
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    let place = it.mount_root("n1").join("101/striped");
    let mut synced = File::create_new(place.join("synced")).unwrap();
    synced.write_all(&contents(1)).unwrap();
    synced.sync_all().unwrap();
    it.until("both copies are there", is_whole).await;
    let mut written = File::create_new(place.join("written")).unwrap();
    written.write_all(&contents(2)).unwrap();

    it.lose("n2");
    it.until("the node is away", |status| status.nodes.iter().any(|node| node.name == "n2" && !node.online))
        .await;
    let later = place.join("later");
    let waits = std::thread::spawn(move || fs::write(later, contents(3)));
    let lost: Lost = it.post("/v1/nodes/n2/lost", &json!({})).await.unwrap();
    assert!(lost.moved.is_empty() && lost.at_risk[0].why.contains("add a node to the pool"), "{lost:?}");
    it.start_node("n3");
    it.until("the spare node is online", |status| {
        status.nodes.iter().filter(|node| node.online).count() == 2
    })
    .await;
    let lost: Lost = it.post("/v1/nodes/n2/lost", &json!({})).await.unwrap();
    assert!(lost.at_risk.is_empty() && lost.moved[0].nodes == ["n1", "n3"], "{lost:?}");

    waits.join().unwrap().unwrap();
    written.sync_all().unwrap();
    for (n, name) in (1..).zip(["synced", "written", "later"]) {
        assert!(fs::read(place.join(name)).unwrap() == contents(n), "{name} has other bytes");
    }
    it.until("both copies are there again", is_whole).await;
    match it.post::<_, Lost>("/v1/nodes/n1/lost", &json!({})).await {
        Err(CallError::Api(error)) => assert_eq!(error.code, "node_answers"),
        other => panic!("a node that answers was given up: {other:?}"),
    }
    drop((synced, written));
    it.call("101", "post_run", nothing()).await.unwrap();
    it.call("101", "data_out", nothing()).await.unwrap();
    let reply: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
    assert_eq!(reply.kept, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mirror_a_lost_node_is_named_and_its_buffer_stays_as_it_is() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB\n";
    it.call("101", "setup", serde_json::to_value(it.setup(directives)).unwrap()).await.unwrap();
    it.start_node("n3");
    it.until("three nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 3)
        .await;
    it.lose("n2");
    it.until("the node is away", |status| status.nodes.iter().any(|node| node.name == "n2" && !node.online))
        .await;
    let lost: Lost = it.post("/v1/nodes/n2/lost", &json!({})).await.unwrap();
    assert!(lost.moved.is_empty() && lost.at_risk[0].token == "101", "{lost:?}");
    assert!(lost.at_risk[0].why.contains("on this node only"), "{lost:?}");
    let status = it.status().await;
    assert_eq!(status.sessions[0].instance.as_ref().unwrap().nodes, ["n1", "n2"]);
    assert!(status.nodes.iter().any(|node| node.name == "n2" && node.drained.is_some()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_a_node_has_no_longer_is_refused_by_name_and_never_made_anew() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped,private capacity=64MiB\n";
    let setup = serde_json::to_value(it.setup(directives)).unwrap();
    let instance = it.call("101", "setup", setup).await.unwrap().instance.unwrap();
    assert_eq!(instance.nodes, ["n1", "n2"]);
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    let file = it.mount_root("n1").join("101/striped/file");
    fs::write(&file, contents(1)).unwrap();

    // Its disk is not mounted.
    let (fragment, aside) = (it.fragment("n2", &instance.id), it.mount_root("n2").with_file_name("aside"));
    it.kill("n2");
    fs::rename(&fragment, &aside).unwrap();
    it.start_node("n2");
    // Each host of a job has a private namespace, which is added to all parts.
    let refused = it.call("101", "pre_run", hosts(&["n1", "n2"])).await;
    assert!(!fragment.exists(), "an empty part was made where one had been: {refused:?}");
    match refused {
        Err(CallError::Api(error)) => {
            assert!(error.message.contains("node n2 has no part of"), "{error:?}");
            assert!(error.advice.contains("forebay node lost n2"), "{error:?}");
        }
        other => panic!("{other:?}"),
    }

    it.kill("n2");
    fs::rename(&aside, &fragment).unwrap();
    it.start_node("n2");
    assert!(fs::read(file).unwrap() == contents(1), "it has other bytes");
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
