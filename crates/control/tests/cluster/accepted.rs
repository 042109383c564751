//! A host is lost for good, and nobody knows what the copies of its parts lack: an operator may accept that.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use api::CallError;
use model::FragmentIndex;
use model::stripe::Layout;
use serde_json::json;
use wire::control::{ErrorCode, Lost, TeardownReply};

use crate::hosts::{Cluster, nothing};
use crate::lost::{contents, give_up, is_moved, is_whole, make_mirrored, mirrored};

/// Files of a stripe each, some of which are on the first part, some on the second.
const SMALL: std::ops::Range<u8> = 0..12;

fn confirmed(path: &Path, bytes: &[u8]) {
    let mut file = File::create_new(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

/// The bytes that each file below `out` has.
fn bytes_of(n: u8) -> Vec<u8> {
    contents(n)[..60_000].to_vec()
}

async fn with_files() -> Option<(Cluster, std::path::PathBuf)> {
    let mut it = Cluster::start().await?;
    let place = make_mirrored(&mut it, "directory", "out").await;
    fs::create_dir(place.join("out")).unwrap();
    for n in SMALL {
        confirmed(&place.join(format!("out/{n}")), &bytes_of(n));
    }
    it.until("both copies are there", is_whole).await;
    Some((it, place))
}

/// Ends the job: its stage-out fails, names these files and no other, and brings everything else.
async fn stages_out_all_but(it: &Cluster, lost: &BTreeSet<String>) {
    it.call("101", "post_run", nothing()).await.unwrap();
    match it.call("101", "data_out", nothing()).await {
        Err(CallError::Refused(error)) => assert_eq!(error.code, ErrorCode::StageFailed, "{error:?}"),
        other => panic!("files were lost, and the stage-out did not fail: {other:?}"),
    }
    let status = it.status().await;
    let failures = &status.sessions[0].stages[0].failures;
    let name_of = |path: &str| format!("out/{}", path.rsplit('/').next().unwrap());
    let named: BTreeSet<String> = failures.iter().map(|failure| name_of(&failure.path)).collect();
    assert_eq!(&named, lost, "{failures:?}");
    for n in SMALL {
        let name = format!("out/{n}");
        match fs::read(it.pfs(&name)) {
            Ok(bytes) => assert!(bytes == bytes_of(n) && !lost.contains(&name), "{name} was staged out so"),
            Err(error) => assert!(lost.contains(&name), "{name} did not arrive: {error}"),
        }
    }
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

fn is_eio(path: &Path) -> bool {
    fs::read(path).is_err_and(|error| error.raw_os_error() == Some(5))
}

/// Those of the files that cannot be read; all others are what they were.
fn unreadable(place: &Path) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for n in SMALL {
        let name = format!("out/{n}");
        match fs::read(place.join(&name)) {
            Ok(bytes) => assert!(bytes == bytes_of(n), "{name} has other bytes"),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(5), "{name}");
                all.insert(name);
            }
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_home_wrote_alone_before_it_was_lost_is_lost_by_name_where_that_is_accepted() {
    let Some((mut it, place)) = with_files().await else { return };
    let path_of = |n: &u8| place.join(format!("out/{n}"));
    let start = |n: &u8| Layout::striped(2).start(fs::metadata(path_of(n)).unwrap().ino().into());
    let (on_first, on_second): (Vec<u8>, Vec<u8>) = SMALL.partition(|n| start(n) == FragmentIndex(0));
    let (changed, rewritten) = (on_first[0], on_first[1]);
    let file = File::options().write(true).open(path_of(&changed)).unwrap();

    // Control knows that n1 goes on alone: what it confirms is on no other node.
    it.kill("n2");
    let alone = std::thread::spawn({
        let folder = place.join("out");
        move || {
            file.write_all_at(&[7; 4096], 0)?;
            File::create_new(folder.join("since"))?;
            File::open(folder)?.sync_all()
        }
    });
    alone.join().unwrap().unwrap();
    it.lose("n1");
    it.start_node("n2");
    let refused = give_up(&it, "n1", "n2").await;
    assert!(refused.moved.is_empty() && refused.damaged.is_empty(), "{refused:?}");
    let why = &refused.at_risk[0].why;
    for said in ["node n2 did not have all", "--accept-loss", "names and attributes that an fsync confirmed"]
    {
        assert!(why.contains(said), "{why}");
    }

    match it.post::<_, Lost>("/v1/nodes/n2/lost", &json!({"accept_loss": true})).await {
        Err(CallError::Refused(error)) => assert_eq!(error.code, ErrorCode::NodeAnswers),
        other => panic!("a node that answers was given up: {other:?}"),
    }
    let accepted: Lost = it.post("/v1/nodes/n1/lost", &json!({"accept_loss": true})).await.unwrap();
    assert!(accepted.at_risk.is_empty() && accepted.moved.is_empty(), "{accepted:?}");
    assert!(accepted.damaged[0].names_lack && accepted.damaged[0].nodes == ["n3", "n2"], "{accepted:?}");
    let named: BTreeSet<String> = accepted.damaged[0].files.files.iter().cloned().collect();
    let expected: BTreeSet<String> = on_first.iter().map(|n| format!("out/{n}")).collect();
    assert_eq!(named, expected, "of each of them the mirror may lack something");
    assert_eq!(unreadable(&place), expected);
    let again: Lost = it.post("/v1/nodes/n1/lost", &json!({})).await.unwrap();
    assert!(again.damaged[0].names_lack && again.damaged[0].files.files.len() == named.len(), "{again:?}");
    it.until("the status says what lacks", |status| {
        let damaged = &status.sessions[0].instance.as_ref().unwrap().damaged;
        let says = |what| damaged.iter().any(|part| part.node == "n3" && part.why.contains(what));
        says("names and attributes") && says("objects were lost")
    })
    .await;

    // What is written anew is good, and what is lost stays so, whoever starts again and finds whom.
    fs::write(path_of(&rewritten), bytes_of(rewritten)).unwrap();
    File::open(path_of(&rewritten)).unwrap().sync_all().ok();
    for node in ["n3", "n2"] {
        it.kill(node);
        it.start_node(node);
        it.until("both nodes are there", |status| {
            status.nodes.iter().filter(|node| node.online).count() == 2
        })
        .await;
        assert!(is_eio(&path_of(&changed)), "it is what it was before n1 changed it");
    }
    let left: BTreeSet<String> =
        expected.into_iter().filter(|name| *name != format!("out/{rewritten}")).collect();
    assert_eq!(unreadable(&place), left);
    assert!(!on_second.is_empty(), "some arrive");
    stages_out_all_but(&it, &left).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stage_out_after_a_loss_names_what_lacks_something_and_brings_the_rest() {
    let Some((mut it, place)) = with_files().await else { return };
    // The mirror of one file fails.
    let ino_of = |n: u8| fs::metadata(place.join(format!("out/{n}"))).unwrap().ino();
    let failing =
        SMALL.clone().find(|n| Layout::striped(2).start(ino_of(*n).into()) == FragmentIndex(1)).unwrap();
    let ino = ino_of(failing);
    let instance = it.status().await.sessions[0].instance.as_ref().unwrap().id.clone();
    let object = it.fragment("n1", &instance).join(format!("mirror/0/{:02x}/{ino:016x}", ino & 0xff));
    it.kill("n1");
    fs::remove_file(&object).unwrap();
    fs::create_dir(&object).unwrap();
    it.start_node("n1");
    let path = place.join(format!("out/{failing}"));
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(&bytes_of(failing), 0).unwrap();
    file.sync_all().unwrap_or_default();
    drop(file);
    it.until("only that is on one node", |status| {
        let mirrors = &status.sessions[0].instance.as_ref().unwrap().mirrors;
        mirrors.iter().any(|mirror| mirror.node == "n2" && mirror.named && mirror.behind == Some(1))
    })
    .await;
    it.lose("n2");
    let given_up = give_up(&it, "n2", "n1").await;
    let lost = BTreeSet::from([format!("out/{failing}")]);
    let named: BTreeSet<String> = given_up.damaged[0].files.files.iter().cloned().collect();
    assert_eq!(named, lost, "{given_up:?}");
    assert!(!given_up.damaged[0].names_lack, "{given_up:?}");
    stages_out_all_but(&it, &lost).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_node_said_last_is_known_after_a_restart_of_control() {
    let Some((mut it, place)) = mirrored().await else { return };
    confirmed(&place.join("kept"), &contents(1));
    it.kill("control");
    it.lose("n1");
    it.start_control();
    let lost = give_up(&it, "n1", "n2").await;
    assert!(is_moved(&lost, &["n3", "n2"]), "{lost:?}");
    assert!(fs::read(place.join("kept")).unwrap() == contents(1), "it has other bytes");
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_lost_right_after_a_set_up_is_replaced() {
    let Some(mut it) = Cluster::start().await else { return };
    let directives = "#DW jobdw type=scratch access_mode=striped capacity=64MiB redundancy=mirror\n";
    let setup = serde_json::to_value(it.setup(directives)).unwrap();
    let nodes = it.call("101", "setup", setup).await.unwrap().instance.unwrap().nodes;
    assert_eq!(nodes, ["n1", "n2"]);
    it.lose("n1");
    it.start_node("n3");
    it.until("a spare node is there", |status| {
        status.nodes.iter().any(|node| node.name == "n3" && node.online)
    })
    .await;
    let lost = give_up(&it, "n1", "n2").await;
    assert!(is_moved(&lost, &["n3", "n2"]), "{lost:?}");
    let _: TeardownReply = it.post("/v1/sessions/101/teardown", &json!({"hurry": true})).await.unwrap();
}
