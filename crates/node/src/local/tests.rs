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

/// Keeps the specification of volume 7 in `folder`; returns its file.
fn keep_one(folder: &Path) -> PathBuf {
    let owner = Owner { uid: 7, gid: 8 };
    let spec = LocalSpec { id: "7".into(), owner, user: "u".into(), capacity_bytes: None, drain: None };
    let kept = Kept { spec, capacity_bytes: 1 << 30, released: false, given_up: false, kind: Kind::Image };
    std::fs::create_dir_all(folder.join("7")).unwrap();
    let file = folder.join("7/spec.json");
    keep::write(&file, &kept).unwrap();
    file
}

#[tokio::test]
async fn what_is_kept_of_a_volume_is_as_it_always_was_and_what_is_not_understood_is_named_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = keep_one(&dir.path().join("locals"));
    let good = std::fs::read_to_string(&file).unwrap();
    let mut read: serde_json::Value = serde_json::from_str(&good).unwrap();
    read["crc32c"].take();
    let expected = serde_json::json!({
        "format": 1, "crc32c": null, "capacity_bytes": 1 << 30, "released": false, "given_up": false,
        "kind": {"is": "image"},
        "spec": {"id": "7", "owner": {"uid": 7, "gid": 8}, "user": "u", "capacity_bytes": null, "drain": null}
    });
    assert_eq!(read, expected);
    let flipped = good.replace("\"uid\":7", "\"uid\":6");
    for text in ["{", r#"{"format":2}"#, flipped.as_str()] {
        std::fs::write(&file, text).unwrap();
        let locals = locals(dir.path());
        locals.take_up_all().unwrap();
        let refused = locals.release("7", true).await.unwrap_err();
        assert!(
            refused.code == ErrorCode::NotTakenUp && refused.message.contains("7/spec.json"),
            "{refused}"
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
}

#[tokio::test]
async fn a_volume_whose_disk_is_not_mounted_is_not_said_to_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, away) = (dir.path().join("locals"), dir.path().join("away"));
    keep_one(&disk);
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
