//! Supervision with a shell script in place of `forebay-mount` and a marker file in place of the mount table.

use std::path::Path;
use std::process::Command;

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId};
use wire::control::ErrorCode;
use wire::node::NamespaceTarget;

use super::*;

#[derive(Clone)]
struct MarkerTable;

impl MountTable for MarkerTable {
    fn is_mounted(&self, path: &Path) -> io::Result<bool> {
        disk::exists(&path.join(".mounted"))
    }

    fn detach(&self, path: &Path) -> io::Result<()> {
        if disk::exists(&path.with_file_name("stuck"))? {
            return Err(io::Error::other("fusermount3 does not work"));
        }
        std::fs::remove_file(path.join(".mounted"))
    }
}

fn setting(dir: &Path) -> Setting<MarkerTable> {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake-mount");
    Setting { folder: dir.join("mounts"), program, table: MarkerTable }
}

fn spec(dir: &Path) -> MountSpec {
    let target = NamespaceTarget {
        instance: InstanceId::literal("i1"),
        namespace: 0,
        credential: None,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        nodes: vec![],
        grace_ms: 1,
    };
    MountSpec {
        id: "3-striped".into(),
        mountpoint: dir.join("mnt/striped"),
        target,
        exclusive: true,
        behaviour: Default::default(),
    }
}

/// Ends a mount process and waits for its end.
fn kill(pid: u32) {
    assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    while crate::process::ProcessId::of(pid).is_ok() {
        std::thread::yield_now();
    }
}

/// Waits until the mount is back with one interruption more than before.
async fn remounted(mounts: &Mounts<MarkerTable>, interruptions: u32) -> MountStatus {
    let mut view = mounts.lock()["3-striped"].view.clone();
    let view = view.wait_for(|view| view.status.mounted && view.status.interruptions == interruptions);
    view.await.unwrap().status.clone()
}

#[tokio::test]
async fn a_mount_is_made_once_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    let first = mounts.create(spec(dir.path())).await.unwrap();
    assert!(first.mounted && MarkerTable.is_mounted(&first.mountpoint).unwrap());
    assert_eq!(
        mounts.create(spec(dir.path())).await.unwrap(),
        first,
        "asked again, the same process serves it"
    );
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::from_secs(30))).await.unwrap();
    assert!(!disk::exists(&first.mountpoint).unwrap(), "the node made the mount point, so it removes it");
    assert_eq!(std::fs::read_dir(dir.path().join("mounts")).unwrap().count(), 0);
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::from_secs(30))).await.unwrap();
}

#[tokio::test]
async fn another_specification_under_the_same_id_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    mounts.create(spec(dir.path())).await.unwrap();
    let other = MountSpec { exclusive: false, ..spec(dir.path()) };
    assert_eq!(mounts.create(other).await.unwrap_err().code, ErrorCode::MountDiffers);
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
}

#[tokio::test]
async fn a_mount_that_fails_tells_why_and_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("mnt")).unwrap();
    std::fs::write(dir.path().join("mnt/refuse"), "").unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    let error = mounts.create(spec(dir.path())).await.unwrap_err();
    assert!(error.message.contains("open /dev/fuse: Permission denied"), "{}", error.message);
    assert!(mounts.statuses().is_empty());
    assert!(!disk::exists(&dir.path().join("mnt/striped")).unwrap());
    std::fs::remove_file(dir.path().join("mnt/refuse")).unwrap();
    mounts.create(spec(dir.path())).await.unwrap();
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
}

/// `fusermount3` mounts also for a process that was ended meanwhile.
#[tokio::test]
async fn what_a_helper_still_mounts_is_taken_away_by_an_unmount() {
    let dir = tempfile::tempdir().unwrap();
    let beside = |name: &str| dir.path().join("mnt").join(name);
    std::fs::create_dir_all(beside("striped")).unwrap();
    std::fs::write(beside("slow"), "").unwrap();
    let mounts = Arc::new(Mounts::open(setting(dir.path())).unwrap());
    let (created, spec) = (Arc::clone(&mounts), spec(dir.path()));
    let created = tokio::spawn(async move { created.create(spec).await });
    while !disk::exists(&beside("helped")).unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
    created.await.unwrap().unwrap_err();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!MarkerTable.is_mounted(&beside("striped")).unwrap(), "mounted after it was unmounted");
}

#[tokio::test]
async fn a_foreign_mount_at_the_place_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("mnt/striped")).unwrap();
    std::fs::write(dir.path().join("mnt/striped/.mounted"), "").unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    mounts.create(spec(dir.path())).await.unwrap_err();
    assert!(MarkerTable.is_mounted(&dir.path().join("mnt/striped")).unwrap());
}

#[tokio::test]
async fn a_mount_whose_process_dies_is_made_anew_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    let first = mounts.create(spec(dir.path())).await.unwrap();
    kill(first.pid.unwrap());
    let second = remounted(&mounts, 1).await;
    assert_ne!(second.pid, first.pid);
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
}

#[tokio::test]
async fn a_restarted_node_takes_up_the_living_mount() {
    let dir = tempfile::tempdir().unwrap();
    let first = Mounts::open(setting(dir.path())).unwrap().create(spec(dir.path())).await.unwrap();
    // The supervisor of the first life still runs here; it only watches, as the second one does.
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    let found = mounts.create(spec(dir.path())).await.unwrap();
    assert_eq!((found.pid, found.interruptions), (first.pid, 0));
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
}

/// Mounts in a runtime of its own and ends that, as a node's death does: the mount process stays, its supervisor does
/// not.
fn first_life(dir: &Path) -> MountStatus {
    let life = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let status =
        life.block_on(async { Mounts::open(setting(dir)).unwrap().create(spec(dir)).await.unwrap() });
    life.shutdown_background();
    status
}

#[test]
fn a_mount_that_died_with_its_node_is_cleared_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let first = first_life(dir.path());
    kill(first.pid.unwrap());
    let life = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    life.block_on(async {
        let mounts = Mounts::open(setting(dir.path())).unwrap();
        let second = mounts.create(spec(dir.path())).await.unwrap();
        assert!(second.mounted);
        assert_eq!(second.interruptions, 1);
        mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
    });
}

/// Two lives of a node in which the second finds this `text` in the `file` that the first has kept of the mount.
async fn refuses_until_readable(file: &str, text: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let first = tokio::task::spawn_blocking(move || first_life(&path)).await.unwrap();
    let kept = dir.path().join("mounts/3-striped").join(file);
    let good = std::fs::read(&kept).unwrap();
    std::fs::write(&kept, text).unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    for _ in 0..2 {
        let refused = mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap_err();
        assert!(refused.message.contains(file), "{}", refused.message);
    }
    mounts.create(spec(dir.path())).await.unwrap_err();
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), text, "it is kept as it is");
    assert!(MarkerTable.is_mounted(&first.mountpoint).unwrap(), "what may have a job in it is left alone");
    std::fs::write(&kept, good).unwrap();
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
    crate::process::ProcessId::of(first.pid.unwrap()).unwrap_err();
    assert!(!disk::exists(&first.mountpoint).unwrap());
}

#[tokio::test]
async fn a_mount_whose_state_cannot_be_read_is_not_unmounted_until_it_can() {
    refuses_until_readable("kept.json", "{").await;
}

#[tokio::test]
async fn a_mount_whose_specification_cannot_be_read_is_not_unmounted_until_it_can() {
    refuses_until_readable("spec.json", "{").await;
    refuses_until_readable("spec.json", r#"{"format":2}"#).await;
}

#[tokio::test]
async fn a_mount_that_cannot_be_detached_has_no_writer_any_more_and_is_unmounted_when_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let beside = |name: &str| dir.path().join("mnt").join(name);
    std::fs::create_dir_all(dir.path().join("mnt")).unwrap();
    std::fs::write(beside("deaf"), "").unwrap();
    std::fs::write(beside("stuck"), "").unwrap();
    let mounts = Mounts::open(setting(dir.path())).unwrap();
    let first = mounts.create(spec(dir.path())).await.unwrap();
    for _ in 0..2 {
        let refused = mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap_err();
        assert!(refused.message.contains("fusermount3 does not work"), "{}", refused.message);
        crate::process::ProcessId::of(first.pid.unwrap()).expect_err("its process serves writes");
        assert_eq!(mounts.statuses()[0].id, "3-striped", "nobody would look after it any more");
        mounts.create(spec(dir.path())).await.unwrap_err();
    }
    std::fs::remove_file(beside("stuck")).unwrap();
    mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
    assert!(mounts.statuses().is_empty() && !MarkerTable.is_mounted(&first.mountpoint).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_that_is_asked_for_twice_at_once_is_one() {
    for _ in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let mounts = Arc::new(Mounts::open(setting(dir.path())).unwrap());
        let ask = || {
            let (mounts, spec) = (Arc::clone(&mounts), spec(dir.path()));
            tokio::spawn(async move { mounts.create(spec).await })
        };
        let (first, second) = (ask(), ask());
        let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
        assert_eq!(first.pid, second.pid);
        mounts.delete("3-striped", Wanted::UnmountedWithin(Duration::ZERO)).await.unwrap();
        assert!(!disk::exists(&first.mountpoint).unwrap());
    }
}
