//! A node stands still, is given up, and goes on.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use serde_json::json;
use wire::control::{Lost, TeardownReply};

use crate::hosts::{Cluster, hosts, nothing};
use crate::lost::contents;

/// Longer than clients need to go on with whom they were connected to.
const WRITES_FOR: Duration = Duration::from_secs(5);

fn write(place: &Path, n: u8) -> io::Result<()> {
    let file = File::create_new(place.join(n.to_string()))?;
    file.write_all_at(&contents(n), 0)?;
    file.sync_all()
}

/// As the nodes have it.
fn read(place: &Path, n: u8) -> io::Result<Vec<u8>> {
    let file = File::open(place.join(n.to_string()))?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut bytes = vec![0; contents(n).len()];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// A cluster with a buffer on n1 and n2, without a mirror, that is mounted on n1.
async fn plain() -> Option<(Cluster, PathBuf)> {
    let mut it = Cluster::start().await?;
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB redundancy=none\n";
    it.call("101", "setup", serde_json::to_value(it.setup(directives)).unwrap()).await.unwrap();
    it.start_node("n3");
    it.until("three nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 3)
        .await;
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    let place = it.mount_root("n1").join("101/striped");
    write(&place, 0).unwrap();
    Some((it, place))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stood_still_goes_on_while_another_is_silent() {
    let Some((it, place)) = plain().await else { return };
    it.pause("n2");
    it.pause("n1");
    std::thread::sleep(Duration::from_secs(6));
    it.resume("n1");
    // n1 alone has names.
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || done.send(File::create_new(place.join("later")).map(drop)));
    let made = is_done.recv_timeout(Duration::from_secs(40));
    it.resume("n2");
    made.expect("it answers again").unwrap();
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_on_after_it_was_given_up_confirms_nothing() {
    let Some((it, place)) = plain().await else { return };
    it.pause("n2");
    it.until("the node is away", |status| status.nodes.iter().any(|node| node.name == "n2" && !node.online))
        .await;
    let _: Lost = it.post("/v1/nodes/n2/lost", &json!({})).await.unwrap();
    it.resume("n2");
    let begun = Instant::now();
    let mut confirmed = Vec::new();
    for n in 1..20 {
        if begun.elapsed() < WRITES_FOR && write(&place, n).is_ok() {
            confirmed.push(n);
        }
    }
    for n in confirmed {
        assert!(read(&place, n).is_ok_and(|bytes| bytes == contents(n)), "{n} was synced, and is lost");
    }
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
