//! Stages with a shell script in place of `forebay-stage`.

use std::path::Path;

use model::phase::{Direction, StageKind, StageState};
use model::stripe::Layout;
use wire::control::Owner;
use wire::node::{NamespaceTarget, StagePolicy};

use super::*;

fn setting(dir: &Path) -> Setting {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-stage");
    Setting { folder: dir.join("stages"), program, data_address: None, shares: Shares::new(None) }
}

/// A stage whose worker does what `what` says.
fn spec(what: &str) -> StageSpec {
    let target = NamespaceTarget {
        instance: "i1".into(),
        namespace: 0,
        key: "00".repeat(32),
        layout: Layout::striped(1),
        home: 0,
        nodes: vec![],
        grace_ms: 1,
    };
    let own = Owner { uid: rustix::process::getuid().as_raw(), gid: rustix::process::getgid().as_raw() };
    StageSpec {
        id: "3.0".into(),
        direction: Direction::In,
        kind: StageKind::File,
        pfs_path: "/a".into(),
        buffer_path: "a".into(),
        buffer_name: "$DW_JOB_STRIPED".into(),
        source: what.into(),
        destination: String::new(),
        target,
        owner: own,
        policy: StagePolicy::default(),
        ticket: String::new(),
        pairs: Vec::new(),
    }
}

async fn until(stages: &Stages, wanted: impl FnMut(&StageStatus) -> bool) -> StageStatus {
    let mut status = stages.lock()["3.0"].status.clone();
    status.wait_for(wanted).await.unwrap().clone()
}

fn ended(status: &StageStatus) -> bool {
    matches!(status.state, StageState::Complete | StageState::Failed)
}

async fn run(what: &str) -> StageStatus {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec(what)).unwrap();
    until(&stages, ended).await
}

#[tokio::test]
async fn the_last_report_of_the_worker_is_the_status() {
    let status = run("complete").await;
    assert_eq!((status.state, status.progress.bytes_done), (StageState::Complete, 9));
    let status = run("failed").await;
    assert_eq!((status.state, status.error), (StageState::Failed, None));
}

#[tokio::test]
async fn a_worker_that_signals_end_is_started_again_but_not_for_ever() {
    assert_eq!(run("die-twice").await.state, StageState::Complete);
    let status = run("die-always").await;
    assert_eq!(status.state, StageState::Failed);
    let message = status.error.unwrap().message;
    assert!(message.contains("6 times") && message.contains("/scratch/in/culprit"), "{message}");
}

#[tokio::test]
async fn a_stage_that_comes_further_with_each_life_of_its_worker_is_not_given_up() {
    assert_eq!(run("die-on").await.state, StageState::Complete);
    let status = run("die-again").await;
    assert_eq!(status.state, StageState::Failed, "the same again is no progress");
    assert!(status.error.unwrap().message.contains("6 times"));
}

#[tokio::test]
async fn a_worker_that_is_not_sure_of_its_names_is_started_again() {
    assert_eq!(run("unsure-twice").await.state, StageState::Complete);
}

#[tokio::test]
async fn a_worker_that_breaks_fails_the_stage_with_its_last_words() {
    let error = run("panic").await.error.unwrap();
    assert!(error.message.contains("thread main panicked"), "{}", error.message);
}

#[tokio::test]
async fn a_deleted_stage_is_stopped_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("hang")).unwrap();
    until(&stages, |status| status.state == StageState::Active).await;
    stages.delete("3.0").await.unwrap();
    assert_eq!(stages.status("3.0").unwrap_err().code, "no_such_stage");
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
    stages.delete("3.0").await.unwrap();
}

#[tokio::test]
async fn what_killed_workers_left_on_the_pfs_is_removed_before_the_stage_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("die-always")).unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Failed);
    stages.delete("3.0").await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("cleared")).unwrap(), "die-always\n");
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_finished_stage_is_still_known_after_a_restart_and_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("complete")).unwrap();
    let report = until(&stages, ended).await;
    let stages = Stages::open(setting(dir.path())).unwrap();
    assert_eq!(until(&stages, ended).await, report);
    assert_eq!(stages.create(spec("complete")).unwrap(), report);
    assert_eq!(std::fs::read_to_string(dir.path().join("stages/3.0/journal")).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn after_a_clean_shutdown_a_stage_goes_on_with_the_same_journal() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("hang-once")).unwrap();
    until(&stages, |status| status.state == StageState::Active).await;
    stages.shutdown().await;
    let stages = Stages::open(setting(dir.path())).unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Complete);
    assert_eq!(std::fs::read_to_string(dir.path().join("stages/3.0/journal")).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn a_worker_that_outlived_its_node_is_ended_before_another_starts() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("stages/3.0");
    keep_spec(&spec("hang"), &folder).unwrap();
    let mut leftover = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    keep::write(&folder.join("worker.json"), &crate::process::ProcessId::of(leftover.id()).unwrap()).unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    until(&stages, |status| status.state == StageState::Active).await;
    assert!(!leftover.wait().unwrap().success(), "it was killed");
    stages.delete("3.0").await.unwrap();
}

#[tokio::test]
async fn another_specification_under_the_same_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("complete")).unwrap();
    assert_eq!(stages.create(spec("failed")).unwrap_err().code, "stage_differs");
}

#[tokio::test]
async fn a_stage_is_paused_also_over_a_restart_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("obey")).unwrap();
    let paused = StageControl { paused: true, ..StageControl::default() };
    stages.control("3.0", paused).unwrap();
    until(&stages, |status| status.progress.bytes_done == 1).await;
    stages.shutdown().await;
    let stages = Stages::open(setting(dir.path())).unwrap();
    until(&stages, |status| status.progress.bytes_done == 1).await;
    stages.control("3.0", StageControl::default()).unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Complete);
    assert_eq!(stages.control("9.9", paused).unwrap_err().code, "no_such_stage");
}
