//! A host is given up for lost whose disk, or that of its mirror, failed before under writes.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use wire::control::{Lost, Status, TeardownReply};
use wire::node::MirrorStatus;

use crate::hosts::{Cluster, nothing};
use crate::lost::{contents, give_up, is_moved, is_whole, make_mirrored, mirrored};

/// What `node` says of the mirror of its part.
fn mirror_of<'a>(status: &'a Status, node: &str) -> Option<&'a MirrorStatus> {
    let instance = status.sessions.first()?.instance.as_ref()?;
    instance.mirrors.iter().find(|mirror| mirror.node == node)
}

fn confirmed(path: &Path, n: u8) {
    let mut file = File::create_new(path).unwrap();
    file.write_all(&contents(n)).unwrap();
    file.sync_all().unwrap();
}

/// The node `lost` is given up, whose mirror on `keeper` had failed on one file, and so lacks what was answered.
async fn loses_what_the_mirror_failed_on(lost: &str, keeper: &str) {
    let Some((mut it, place)) = mirrored().await else { return };
    confirmed(&place.join("before"), 1);
    let failing = File::create_new(place.join("failing")).unwrap();
    let ino = failing.metadata().unwrap().ino();
    let instance = it.status().await.sessions[0].instance.as_ref().unwrap().id.clone();
    let in_the_way = it.fragment(keeper, &instance).join(format!("mirror/0/{:02x}/{ino:016x}", ino & 0xff));
    fs::create_dir_all(&in_the_way).unwrap();
    (&failing).write_all(&contents(2)).unwrap();
    failing.sync_all().unwrap();
    confirmed(&place.join("after"), 3);
    it.until("only that is on one node", |status| {
        mirror_of(status, lost)
            .is_some_and(|mirror| !mirror.whole && mirror.named && mirror.behind == Some(1))
    })
    .await;

    it.lose(lost);
    let first = give_up(&it, lost, keeper).await;
    let again: Lost = it.post(&format!("/v1/nodes/{lost}/lost"), &json!({})).await.unwrap();
    for told in [first, again] {
        assert!(told.at_risk.is_empty() && told.moved.is_empty(), "{told:?}");
        assert_eq!(told.damaged[0].files.files, ["failing"], "{told:?}");
    }
    for (n, name) in [(1, "before"), (3, "after")] {
        assert!(fs::read(place.join(name)).unwrap() == contents(n), "{name} has other bytes");
    }
    assert_eq!(fs::read(place.join("failing")).unwrap_err().raw_os_error(), Some(5));
    // Where the home was lost, what no sync confirmed may be lost with it, which is told once.
    let _told_once = failing.sync_all();
    drop(failing);
    fs::remove_dir(in_the_way).unwrap();
    fs::remove_file(place.join("failing")).unwrap();
    confirmed(&place.join("failing"), 4);
    it.until("both copies of everything are there", is_whole).await;
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_mirror_of_a_lost_home_failed_on_is_lost_by_name_and_the_rest_goes_on() {
    loses_what_the_mirror_failed_on("n1", "n2").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_mirror_of_a_lost_node_failed_on_is_lost_by_name_and_the_rest_goes_on() {
    loses_what_the_mirror_failed_on("n2", "n1").await;
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A disk of the node's own below its state folder, which has nothing yet.
fn give_disk(it: &mut Cluster, node: &str) {
    it.lose(node);
    let (image, folder) = (it.path(&format!("{node}.img")), it.path(node).join("state"));
    File::create(&image).unwrap().set_len(1 << 30).unwrap();
    run(Command::new("mkfs.xfs").arg("-q").arg(&image));
    fs::create_dir(&folder).unwrap();
    run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder));
    it.start_node(node);
}

/// The disk of the node `dead` dies under writes, and the node is given up.
async fn loses_nothing_with_a_disk_that_dies_under_writes(dead: &str, keeper: &str) {
    let Some(mut it) = Cluster::start().await else { return };
    give_disk(&mut it, dead);
    it.until("both nodes are online", |status| status.nodes.iter().filter(|node| node.online).count() == 2)
        .await;
    let place = make_mirrored(&mut it, "file", "kept").await;
    confirmed(&place.join("kept"), 1);
    let writer = std::thread::spawn({
        let place = place.clone();
        move || {
            let write = |n: u8| {
                let mut file = File::create_new(place.join(format!("file-{n}")))?;
                file.write_all(&contents(n))?;
                file.sync_all()
            };
            (2..250).take_while(|n| write(*n).is_ok()).collect::<Vec<u8>>()
        }
    });
    while fs::metadata(place.join("file-6")).is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(it.path(dead).join("state")));
    let written = writer.join().unwrap();
    assert!(!written.is_empty() && written.len() < 248, "{written:?}");
    // Its last words are of a disk that is dead.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let last = it.status().await;
    it.kill(dead);
    let lost = give_up(&it, dead, keeper).await;
    let to = if dead == "n1" { ["n3", "n2"] } else { ["n1", "n3"] };
    assert!(is_moved(&lost, &to), "{lost:?}\n{last:?}");
    assert!(fs::read(place.join("kept")).unwrap() == contents(1));
    for n in written {
        assert!(fs::read(place.join(format!("file-{n}"))).unwrap() == contents(n), "file-{n} was confirmed");
    }
    is_staged_out(&it, &place).await;
}

async fn is_staged_out(it: &Cluster, place: &Path) {
    // The file that was made last may be gone with its home: the job is told so, once, before anything is staged out.
    let _told = File::open(place.join("kept")).unwrap().sync_all();
    it.call("101", "post_run", nothing()).await.unwrap();
    it.call("101", "data_out", nothing()).await.unwrap();
    assert!(fs::read(it.pfs("kept")).unwrap() == contents(1), "it is staged out");
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nodes_disk_that_dies_under_writes_costs_nothing_that_was_confirmed() {
    loses_nothing_with_a_disk_that_dies_under_writes("n2", "n1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_homes_disk_that_dies_under_writes_costs_nothing_that_was_confirmed() {
    loses_nothing_with_a_disk_that_dies_under_writes("n1", "n2").await;
}
