//! A host is given up in the middle of something: as it comes back from a power loss.

use std::fs::File;
use std::os::unix::fs::FileExt;

use serde_json::json;
use wire::control::TeardownReply;

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
    assert!(bytes == contents(2), "what was answered is gone: {lost:?}");
    drop(file);
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
