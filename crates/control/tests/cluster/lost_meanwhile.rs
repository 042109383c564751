//! A host is given up in the middle of something: as it comes back from a power loss.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use api::CallError;
use model::phase::StageState;
use serde_json::json;
use wire::control::{ErrorCode, SessionStatus, TeardownReply};

use crate::hosts::nothing;
use crate::lost::{contents, give_up, is_moved, is_whole, mirrored};
use crate::power::Disk;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_given_up_as_it_comes_back_from_a_power_loss_takes_nothing_with_it() {
    let Some((mut it, place)) = mirrored().await else { return };
    it.kill("n1");
    let disk = Disk::under(&it, it.path("n1/state"));
    it.start_node("n1");
    it.until("both copies are there on its disk", is_whole).await;
    let file = File::create_new(place.join("file")).unwrap();
    file.write_all_at(&contents(1), 0).unwrap();
    file.sync_all().unwrap();
    // Answered, and on no disk yet: the mirror's kernel has it.
    file.write_all_at(&contents(2), 0).unwrap();

    it.kill("n1");
    disk.lose_power();
    it.start_node("n1");
    it.until("it is back", |status| status.nodes.iter().any(|node| node.name == "n1" && node.online)).await;
    it.kill("n1");
    let lost = give_up(&it, "n1", "n2").await;
    if !is_moved(&lost, &["n3", "n2"]) {
        // It had not all back yet, as far as was heard of it: then it is needed.
        assert!(lost.at_risk[0].why.contains("node n2 did not have all"), "{lost:?}");
        it.start_node("n1");
        it.until("both copies are there again", is_whole).await;
    }
    let mut bytes = vec![0; contents(2).len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    if bytes != contents(2) {
        // What it came back with it puts over the mirror: then what no fsync had confirmed is an error, once.
        let each = || bytes.iter().zip(contents(1)).zip(contents(2));
        assert!(
            each().all(|((is, old), new)| *is == old || *is == new),
            "it has bytes that nobody wrote: {lost:?}"
        );
        let told = file.sync_all().expect_err("what was answered is gone in silence");
        assert_eq!(told.raw_os_error(), Some(5), "{told}");
    }
    drop(file);
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

/// A stage-out of what is on both nodes; `lost` is lost under it, in the middle of its work with that.
async fn is_staged_out_while_one_is_lost(lost: &str, keeper: &str) {
    let Some((mut it, place)) = mirrored().await else { return };
    let mut file = File::create_new(place.join("kept")).unwrap();
    file.write_all(&contents(1)).unwrap();
    file.sync_all().unwrap();
    drop(file);
    it.until("both copies are there", is_whole).await;
    it.call("101", "post_run", nothing()).await.unwrap();
    it.pause(lost);
    let client = it.client();
    let staged = tokio::spawn(async move {
        client.post::<_, SessionStatus>("/v1/sessions/101/data_out", &nothing()).await
    });
    it.until("the stage works, or waits for the node", |status| {
        status.sessions[0].stages.iter().any(|stage| stage.state == StageState::Active)
            || status.nodes.iter().any(|view| view.name == lost && !view.online)
    })
    .await;
    it.lose(lost);
    let given_up = give_up(&it, lost, keeper).await;
    assert!(given_up.at_risk.is_empty() && given_up.moved.len() == 1, "{given_up:?}");
    match staged.await.unwrap() {
        // The node that was to copy is the one that is lost: another goes on.
        Err(CallError::Refused(error)) if lost == "n1" => {
            assert_eq!(error.code, ErrorCode::NodeAbsent, "{error:?}");
            it.call("101", "data_out", nothing()).await.unwrap();
        }
        ended => drop(ended.unwrap()),
    }
    assert!(std::fs::read(it.pfs("kept")).unwrap() == contents(1), "it has other bytes");
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": false})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_out_ends_though_a_node_is_lost_under_it() {
    is_staged_out_while_one_is_lost("n2", "n1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_out_ends_though_the_home_of_all_names_is_lost_under_it() {
    is_staged_out_while_one_is_lost("n1", "n2").await;
}
