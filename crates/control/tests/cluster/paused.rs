//! A host is lost while others, which know of what it wrote or should, were paused: they go on with what they knew.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wire::control::TeardownReply;

use crate::lost::{contents, give_up, is_moved, is_whole, mirrored, wait_as_long_as_nodes};

/// What the first part answers is lost with it, unless the mirror on n2 has it: n2 and control do nothing while it
/// writes, and go on once it is lost, `first` before the other.
async fn loses_what_it_wrote_beside_a_paused_mirror(first: &str) {
    let Some((mut it, place)) = mirrored().await else { return };
    let file = Arc::new(File::create_new(place.join("file")).unwrap());
    file.write_all_at(&contents(1), 0).unwrap();
    file.sync_all().unwrap();
    it.until("both copies are there", is_whole).await;
    for name in ["control", "n2"] {
        it.pause(name);
    }
    // The first stripe is on the first part. Its change is in the mirror's socket already when that goes on; of the
    // next the mirror hears nothing, if the first is answered without it.
    let written = std::thread::spawn({
        let file = file.clone();
        move || [0, 4096].into_iter().try_for_each(|at| file.write_all_at(&[7; 4096], at))
    });
    wait_as_long_as_nodes(&written);
    let answered = written.is_finished();
    it.lose("n1");
    let last = if first == "n2" { "control" } else { "n2" };
    it.resume(first);
    // Whoever goes on first has all the time to take what it knows for the truth.
    std::thread::sleep(Duration::from_secs(1));
    it.resume(last);
    let lost = give_up(&it, "n1", "n2").await;
    assert!(is_moved(&lost, &["n3", "n2"]) || !lost.at_risk.is_empty(), "{lost:?}");
    if is_moved(&lost, &["n3", "n2"]) {
        written.join().unwrap().unwrap();
        let mut bytes = [0; 4096];
        for at in [0, 4096] {
            file.read_exact_at(&mut bytes, at).unwrap();
            assert!(bytes == [7; 4096], "the write at {at} is gone; both were answered before: {answered}");
        }
        file.read_exact_at(&mut bytes, 1 << 20).unwrap();
        assert!(bytes == contents(1)[1 << 20..][..4096], "what was synced before is gone");
    }
    drop(file);
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_node_wrote_while_its_mirror_and_control_were_paused_is_never_silently_old() {
    loses_what_it_wrote_beside_a_paused_mirror("control").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_node_wrote_is_never_silently_old_also_where_its_mirror_goes_on_before_control() {
    loses_what_it_wrote_beside_a_paused_mirror("n2").await;
}
