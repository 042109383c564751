//! A host is lost for good, with its flash: an operator gives it up, and jobs go on.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use api::CallError;
use serde_json::json;
use wire::control::{ErrorCode, Lost, Status, TeardownReply};

use crate::hosts::{Cluster, hosts, nothing};

/// Both copies of everything are there.
pub fn is_whole(status: &Status) -> bool {
    let instance = status.sessions.first().and_then(|session| session.instance.as_ref());
    instance.is_some_and(|instance| {
        let copies = instance.copies.iter().all(|copy| copy.whole);
        copies && instance.mirrors.len() == 2 && instance.mirrors.iter().all(|mirror| mirror.whole)
    })
}

/// Bytes that differ from `n` to `n`.
pub fn contents(n: u8) -> Vec<u8> {
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
        Err(CallError::Refused(error)) => assert_eq!(error.code, ErrorCode::NodeAnswers),
        other => panic!("a node that answers was given up: {other:?}"),
    }
    drop((synced, written));
    it.call("101", "post_run", nothing()).await.unwrap();
    it.call("101", "data_out", nothing()).await.unwrap();
    let reply: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
    assert_eq!(reply.kept, None);
}

/// A buffer without a mirror on n1 and n2, mounted on n3, with files that are on one part and on both; `lost` is lost
/// then.
async fn loses_without_a_mirror(lost: &str) {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB\n";
    it.call("101", "setup", serde_json::to_value(it.setup(directives)).unwrap()).await.unwrap();
    it.start_node("n3");
    it.until("three nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 3)
        .await;
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n3"])).await.unwrap();
    let place = it.mount_root("n3").join("101/striped");
    fs::create_dir(place.join("folder")).unwrap();
    let sizes =
        [("empty", 0), ("folder/short", 9), ("first", 65_536), ("second", 70_000), ("long", 3_000_000)];
    for (name, size) in sizes {
        let mut file = File::create_new(place.join(name)).unwrap();
        file.write_all(&contents(1)[..size]).unwrap();
        file.sync_all().unwrap();
    }
    it.until("both copies of the names are there", |status| {
        let instance = status.sessions[0].instance.as_ref().unwrap();
        !instance.copies.is_empty() && instance.copies.iter().all(|copy| copy.whole)
    })
    .await;

    it.lose(lost);
    let given_up = give_up(&it, lost, if lost == "n1" { "n2" } else { "n1" }).await;
    assert!(given_up.moved.is_empty() && given_up.at_risk.is_empty(), "{given_up:?}");
    let named = &given_up.damaged[0].files.files;
    assert!(named.iter().any(|name| name == "long"), "it was on both parts: {named:?}");
    // Where the home is lost, nobody knows who was writing: any file may have had data there.
    let is_exact = lost != "n1";
    assert!(!is_exact || (1..sizes.len()).contains(&named.len()), "{named:?}");
    for (name, size) in sizes {
        let path = place.join(name);
        let is_named = named.iter().any(|named| named == name);
        match fs::read(&path) {
            Ok(bytes) => {
                assert!(bytes == contents(1)[..size], "{name} has other bytes");
                assert!(!is_named || (!is_exact && name != "long"), "{name} was read: {named:?}");
            }
            Err(error) => assert!(is_named && error.raw_os_error() == Some(5), "{name}: {error}; {named:?}"),
        }
        assert!(!is_exact || fs::metadata(&path).unwrap().len() == size as u64, "{name} has another length");
    }
    // What is written anew, or removed, is good again.
    fs::write(place.join("long"), contents(2)).unwrap();
    assert!(fs::read(place.join("long")).unwrap() == contents(2));
    fs::remove_file(place.join("second")).unwrap();
    fs::write(place.join("second"), contents(3)).unwrap();
    assert!(fs::read(place.join("second")).unwrap() == contents(3));
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mirror_a_lost_node_costs_an_error_on_the_files_that_had_data_there_and_names_them() {
    loses_without_a_mirror("n2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_mirror_a_lost_home_costs_no_names_and_an_error_on_the_files_that_had_data_there() {
    loses_without_a_mirror("n1").await;
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
        Err(CallError::Refused(error)) => {
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

/// Longer than a node waits for one that is silent before it goes on alone, where it may.
const ALONE_BY_THEN: Duration = Duration::from_secs(8);

/// A cluster with a mirrored buffer on n1 and n2, of which all is on both. Its first part, which is the home of all
/// names, has its copies on n2. It is mounted on n3.
pub async fn mirrored() -> Option<(Cluster, PathBuf)> {
    let mut it = Cluster::start().await?;
    let place = make_mirrored(&mut it, "file", "kept").await;
    Some((it, place))
}

/// Makes it there; a file or a directory of it is staged out.
pub async fn make_mirrored(it: &mut Cluster, kind: &str, name: &str) -> PathBuf {
    let directives = format!(
        "#DW jobdw type=scratch access_mode=striped capacity=64MiB redundancy=mirror\n\
         #DW stage_out type={kind} source=$DW_JOB_STRIPED/{name} destination={}\n",
        it.pfs(name).display()
    );
    it.call("101", "setup", serde_json::to_value(it.setup(&directives)).unwrap()).await.unwrap();
    it.start_node("n3");
    it.until("three nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 3)
        .await;
    it.call("101", "data_in", nothing()).await.unwrap();
    it.call("101", "pre_run", hosts(&["n3"])).await.unwrap();
    it.until("both copies are there", is_whole).await;
    it.mount_root("n3").join("101/striped")
}

/// Waits until this has come to its end, but no longer than a node waits that may go on alone.
pub fn wait_as_long_as_nodes<T>(work: &JoinHandle<T>) {
    let begun = Instant::now();
    while !work.is_finished() && begun.elapsed() < ALONE_BY_THEN {
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Gives a node up that does not answer, while the node with its copies is there.
pub async fn give_up(it: &Cluster, node: &str, keeper: &str) -> Lost {
    it.until("the node is away, and the other there", |status| {
        let is_online = |name| status.nodes.iter().any(|view| view.name == name && view.online);
        !is_online(node) && is_online(keeper)
    })
    .await;
    it.post(&format!("/v1/nodes/{node}/lost"), &json!({})).await.unwrap()
}

/// Whether a buffer goes on on these nodes, and nothing is at risk.
pub fn is_moved(lost: &Lost, to: &[&str]) -> bool {
    lost.at_risk.is_empty() && lost.moved.iter().any(|moved| moved.nodes == to)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_lost_node_wrote_without_its_mirror_is_never_taken_from_the_mirror() {
    let Some((mut it, place)) = mirrored().await else { return };
    let file = Arc::new(File::create_new(place.join("file")).unwrap());
    file.write_all_at(&contents(1), 0).unwrap();
    file.sync_all().unwrap();
    it.until("both copies are there", is_whole).await;
    // The first stripe is on the first part.
    let write = |n| {
        let file = file.clone();
        std::thread::spawn(move || file.write_all_at(&[n; 4096], 0))
    };

    // Nobody hears that n1 is without its mirror before it is lost.
    it.pause("control");
    it.kill("n2");
    let written = write(7);
    wait_as_long_as_nodes(&written);
    it.lose("n1");
    it.start_node("n2");
    it.resume("control");
    let lost = give_up(&it, "n1", "n2").await;
    assert!(is_moved(&lost, &["n3", "n2"]), "{lost:?}");
    written.join().unwrap().unwrap();
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == [7; 4096], "a write that was answered is gone");

    // Where control hears it, the write is answered, and the mirror is not taken.
    it.until("both copies are there again", is_whole).await;
    it.kill("n2");
    write(8).join().unwrap().unwrap();
    it.kill("n3");
    it.start_node("n2");
    let lost = give_up(&it, "n3", "n2").await;
    assert!(lost.moved.is_empty() && lost.at_risk[0].why.contains("node n2 did not have all"), "{lost:?}");
    it.start_node("n3");
    drop(file);
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_a_lost_home_confirmed_without_its_copies_is_never_lost_in_silence() {
    let Some((mut it, place)) = mirrored().await else { return };
    it.pause("control");
    it.kill("n2");
    let confirmed = std::thread::spawn(move || {
        File::create_new(place.join("kept"))?;
        File::open(place)?.sync_all()
    });
    wait_as_long_as_nodes(&confirmed);
    it.lose("n1");
    it.start_node("n2");
    it.resume("control");
    let lost = give_up(&it, "n1", "n2").await;
    assert!(is_moved(&lost, &["n3", "n2"]), "{lost:?}");
    let confirmed = confirmed.join().unwrap();
    it.call("101", "post_run", nothing()).await.unwrap();
    // The mount may remember the file: the stage asks the storage nodes.
    let staged = it.call("101", "data_out", nothing()).await;
    if confirmed.is_ok() {
        assert!(it.pfs("kept").exists(), "a file that fsync confirmed is gone: {staged:?}");
    }
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
