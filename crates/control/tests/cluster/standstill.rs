//! A node stands still, is given up, and goes on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_on_after_it_was_given_up_confirms_nothing() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB redundancy=none\n";
    it.call("101", "setup", serde_json::to_value(it.setup(directives)).unwrap()).await.unwrap();
    it.start_node("n3");
    it.until("three nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 3)
        .await;
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n1"])).await.unwrap();
    let place = it.mount_root("n1").join("101/striped");
    write(&place, 0).unwrap();
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
