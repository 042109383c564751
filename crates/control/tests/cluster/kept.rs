//! A host is given up for lost, whose mirror is damaged, and comes back with all that it had.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;
use wire::control::{Lost, Status, TeardownReply};
use wire::node::ScrubStatus;

use crate::hosts::Cluster;
use crate::lost::{contents, give_up, is_whole, mirrored};

/// Has everything sealed that is there.
async fn seal(it: &Cluster) {
    let _: ScrubStatus = it.post("/v1/sessions/101/scrub", &json!({})).await.unwrap();
    let begun = Instant::now();
    while it.client().get::<ScrubStatus>("/v1/sessions/101/scrub").await.unwrap().running {
        assert!(begun.elapsed() < Duration::from_secs(30), "a scrub of some megabytes has no end");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Whether something is known to be lost, and what is said of the node that was given up.
fn said(status: &Status) -> (bool, bool) {
    let instance = status.sessions.first().and_then(|session| session.instance.as_ref());
    instance.map_or((false, false), |instance| (!instance.damaged.is_empty(), !instance.given_up.is_empty()))
}

/// What the node n2 had is kept, while only the file `damaged` lacks something.
async fn is_kept_until_nothing_lacks(it: &mut Cluster, own: &Path, damaged: &Path) {
    it.start_node("n2");
    it.until("it is said where it is kept", |status| said(status) == (true, true)).await;
    let status = it.status().await;
    assert_eq!(status.sessions[0].instance.as_ref().unwrap().given_up[0].path, own);
    assert!(fs::metadata(own.join("objects/0")).is_ok(), "it is all there");
    fs::remove_file(damaged).unwrap();
    it.until("it is discarded when nothing lacks any more", |status| said(status) == (false, false)).await;
    assert!(fs::metadata(own).is_err(), "it is gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_mirror_of_a_lost_node_lacks_is_named_and_what_that_node_has_is_kept_until_nothing_lacks() {
    let Some((mut it, place)) = mirrored().await else { return };
    for (n, name) in [(1, "damaged"), (2, "good")] {
        let mut file = File::create_new(place.join(name)).unwrap();
        file.write_all(&contents(n)).unwrap();
        file.sync_all().unwrap();
    }
    let ino = fs::metadata(place.join("damaged")).unwrap().ino();
    it.until("both copies are there", is_whole).await;
    seal(&it).await;
    let instance = it.status().await.sessions[0].instance.as_ref().unwrap().id.clone();

    // The disk of the lost node is there again later, the mirror is damaged.
    it.kill("n2");
    let own = it.fragment("n2", &instance);
    let aside = own.parent().unwrap().with_file_name("aside");
    fs::rename(&own, &aside).unwrap();
    let mirror = it.fragment("n1", &instance).join("mirror/0");
    let object = mirror.join(format!("{:02x}/{ino:016x}", ino & 0xff));
    fs::OpenOptions::new().write(true).open(object).unwrap().set_len(8192).unwrap();
    let first = give_up(&it, "n2", "n1").await;
    let again: Lost = it.post("/v1/nodes/n2/lost", &json!({})).await.unwrap();
    for lost in [first, again] {
        assert!(lost.at_risk.is_empty() && lost.moved.is_empty(), "{lost:?}");
        assert_eq!(lost.damaged[0].files.files, ["damaged"], "{lost:?}");
    }
    it.until("the status says so", |status| said(status).0).await;
    assert!(fs::read(place.join("good")).unwrap() == contents(2), "what is on the mirror is restored");
    assert_eq!(fs::read(place.join("damaged")).unwrap_err().raw_os_error(), Some(5));

    fs::rename(&aside, &own).unwrap();
    is_kept_until_nothing_lacks(&mut it, &own, &place.join("damaged")).await;
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
