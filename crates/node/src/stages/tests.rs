//! Stages with a shell script in place of `forebay-stage`.

use std::path::Path;

use model::phase::{Direction, StageKind, StageState};
use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use wire::control::{ErrorCode, Owner};
use wire::node::{NamespaceTarget, StagePolicy};

use super::*;

mod newer;

fn setting(dir: &Path) -> Setting {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-stage");
    let workers = worker::Workers { program, data_address: None, pfs_roots: Vec::new() };
    Setting { folder: dir.join("stages"), workers, shares: Shares::new(None) }
}

/// A stage whose worker does what `what` says.
fn spec(what: &str) -> StageSpec {
    let target = NamespaceTarget {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        credential: None,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
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
        pfs_mounts: Vec::new(),
        source_ino: None,
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
    stages.create(spec(what)).await.unwrap();
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
    stages.create(spec("hang")).await.unwrap();
    until(&stages, |status| status.state == StageState::Active).await;
    stages.delete("3.0").await.unwrap();
    assert_eq!(stages.status("3.0").unwrap_err().code, ErrorCode::NoSuchStage);
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
    stages.delete("3.0").await.unwrap();
}

#[tokio::test]
async fn what_killed_workers_left_on_the_pfs_is_removed_before_the_stage_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("die-always")).await.unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Failed);
    stages.delete("3.0").await.unwrap();
    assert_eq!(std::fs::read_to_string(dir.path().join("cleared")).unwrap(), "die-always\n");
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_finished_stage_is_still_known_after_a_restart_and_not_run_again() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("complete")).await.unwrap();
    let report = until(&stages, ended).await;
    let stages = Stages::open(setting(dir.path())).unwrap();
    assert_eq!(until(&stages, ended).await, report);
    assert_eq!(stages.create(spec("complete")).await.unwrap(), report);
    assert_eq!(std::fs::read_to_string(dir.path().join("stages/3.0/journal")).unwrap().lines().count(), 1);
}

#[tokio::test]
async fn after_a_clean_shutdown_a_stage_goes_on_with_the_same_journal() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("hang-once")).await.unwrap();
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
    kept::write(&spec("hang"), &folder).unwrap();
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
    stages.create(spec("complete")).await.unwrap();
    assert_eq!(stages.create(spec("failed")).await.unwrap_err().code, ErrorCode::StageDiffers);
}

#[tokio::test]
async fn a_stage_is_paused_also_over_a_restart_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("obey")).await.unwrap();
    let paused = StageControl { paused: true, ..StageControl::default() };
    stages.control("3.0", paused).await.unwrap();
    until(&stages, |status| status.progress.bytes_done == 1).await;
    stages.shutdown().await;
    let stages = Stages::open(setting(dir.path())).unwrap();
    until(&stages, |status| status.progress.bytes_done == 1).await;
    stages.control("3.0", StageControl::default()).await.unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Complete);
    assert_eq!(stages.control("9.9", paused).await.unwrap_err().code, ErrorCode::NoSuchStage);
}

/// A stage that was deleted, but whoever asked for that went away before it was gone.
async fn deleted_half(dir: &Path) -> Stages {
    let stages = Stages::open(setting(dir)).unwrap();
    stages.create(spec("die-always")).await.unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Failed);
    std::fs::write(dir.join("slow"), "").unwrap();
    let clears = async {
        while !disk::exists(&dir.join("clears")).unwrap() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = stages.delete("3.0") => panic!("deleted before it was cleared"),
        () = clears => {}
    }
    stages
}

#[tokio::test]
async fn a_stage_is_deleted_only_once_nothing_of_it_is_left_whoever_asked_before() {
    let dir = tempfile::tempdir().unwrap();
    let stages = deleted_half(dir.path()).await;
    let again = stages.create(spec("die-always")).await;
    assert_eq!(
        again.unwrap_err().code,
        ErrorCode::StageGoing,
        "a stage that ends is not the one that was asked for"
    );
    std::fs::remove_file(dir.path().join("slow")).unwrap();
    stages.delete("3.0").await.unwrap();
    assert!(disk::exists(&dir.path().join("cleared")).unwrap());
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_stage_whose_deletion_was_cut_short_is_not_run_by_the_next_life_of_the_node_but_deleted() {
    let dir = tempfile::tempdir().unwrap();
    drop(deleted_half(dir.path()).await);
    // As if the node had been killed before the report was kept.
    std::fs::remove_file(dir.path().join("stages/3.0/report.json")).unwrap();
    let lives = || {
        let journal = std::fs::read_to_string(dir.path().join("stages/3.0/journal")).unwrap_or_default();
        journal.lines().filter(|line| *line == "life").count()
    };
    let before = lives();
    let stages = Stages::open(setting(dir.path())).unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Failed);
    assert_eq!(lives(), before, "a stage that was deleted copies again");
    std::fs::remove_file(dir.path().join("slow")).unwrap();
    while !stages.statuses().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert_eq!(std::fs::read_dir(dir.path().join("stages")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_stage_that_is_asked_for_while_another_of_its_id_is_deleted_is_not_deleted_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("die-always")).await.unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Failed);
    std::fs::write(dir.path().join("slow"), "").unwrap();
    let anew = async {
        while !disk::exists(&dir.path().join("clears")).unwrap() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let created = stages.create(spec("complete"));
        std::fs::remove_file(dir.path().join("slow")).unwrap();
        created.await
    };
    let (deleted, created) = tokio::join!(stages.delete("3.0"), anew);
    deleted.unwrap();
    created.unwrap();
    assert_eq!(until(&stages, ended).await.state, StageState::Complete);
    assert!(disk::exists(&dir.path().join("stages/3.0/spec.json")).unwrap());
}

#[tokio::test]
async fn a_stage_whose_specification_cannot_be_read_is_not_said_to_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("stages/3.0");
    kept::write(&spec("hang"), &folder).unwrap();
    let good = std::fs::read(folder.join("spec.json")).unwrap();
    std::fs::write(folder.join("spec.json"), "{").unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    for _ in 0..2 {
        let refused = stages.delete("3.0").await.unwrap_err();
        assert!(refused.message.contains("spec.json"), "{}", refused.message);
    }
    std::fs::write(folder.join("spec.json"), good).unwrap();
    stages.delete("3.0").await.unwrap();
    assert!(!disk::exists(&folder).unwrap());
}

#[tokio::test]
async fn a_stage_that_cannot_be_removed_is_still_there_until_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let stages = Stages::open(setting(dir.path())).unwrap();
    stages.create(spec("complete")).await.unwrap();
    until(&stages, ended).await;
    // Something is in the way that is not a folder.
    let removing = dir.path().join("stages/.removing-3.0");
    std::fs::write(&removing, "").unwrap();
    for _ in 0..2 {
        stages.delete("3.0").await.unwrap_err();
        assert_eq!(stages.statuses().len(), 1);
    }
    std::fs::remove_file(&removing).unwrap();
    stages.delete("3.0").await.unwrap();
    assert!(stages.statuses().is_empty() && !disk::exists(&dir.path().join("stages/3.0")).unwrap());
}
