//! The table of volumes, without what they are made of.

use std::path::Path;

use model::NodeName;
use wire::control::Owner;

use super::*;

fn locals(dir: &Path) -> Arc<Locals> {
    let setting = Setting {
        node: NodeName::literal("n1"),
        folder: dir.join("locals"),
        kind: Kind::Image,
        mount_root: dir.join("mnt"),
        local_root: dir.join("users"),
        reserve_bytes: 0,
        capacity_bytes: 1 << 30,
        program: dir.join("no-drainer"),
        drain_weight: None,
    };
    Locals::without_any(setting)
}

#[tokio::test]
async fn a_volume_whose_disk_is_not_mounted_is_not_said_to_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, away) = (dir.path().join("locals"), dir.path().join("away"));
    let owner = Owner { uid: 7, gid: 8 };
    let spec = LocalSpec { id: "7".into(), owner, user: "u".into(), capacity_bytes: None, drain: None };
    let kept = Kept { spec, capacity_bytes: 1 << 30, released: false, given_up: false, kind: Kind::Image };
    std::fs::create_dir_all(disk.join("7")).unwrap();
    keep::write(&disk.join("7/spec.json"), &kept).unwrap();
    let first = locals(dir.path());
    first.take_up_all().unwrap();
    assert_eq!(first.statuses().len(), 1);

    std::fs::rename(&disk, &away).unwrap();
    let second = locals(dir.path());
    second.take_up_all().unwrap();
    let refused = second.release("7", false).await.unwrap_err();
    assert!(refused.message.contains("volume 7 was never discarded"), "{refused}");
    assert!(refused.advice.contains("mount the disk"), "{refused}");
    second.release("8", false).await.expect("there never was such a volume");
    second.release("7", true).await.expect("what is in it is given up");

    std::fs::remove_dir(&disk).unwrap();
    std::fs::rename(&away, &disk).unwrap();
    second.release("7", false).await.expect("it is found");
    assert_eq!(second.statuses().len(), 1);
}
