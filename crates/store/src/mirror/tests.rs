//! A mirror that is away.

use model::{FragmentIndex, Ino, InstanceId, NodeName};
use wire::control::VolumeKind;
use wire::data::hello::Key;
use wire::node::{FragmentSpec, Missing, StorageAddress};

use super::*;
use crate::log_folder::DiskFolder;
use crate::terms::Terms;

/// The mirror of a fragment, on a node that nobody reaches; what is noted of it is in `notes`.
fn away(folder: &std::path::Path, notes: &std::path::Path) -> Arc<Mirror> {
    let peer = |node: &str| StorageAddress {
        node: NodeName::unchecked(node),
        tcp: "127.0.0.1:1".into(),
        unix: None,
    };
    let mut spec = FragmentSpec {
        instance: InstanceId::literal("i1"),
        index: FragmentIndex(0),
        capacity_bytes: 1 << 20,
        volume: VolumeKind::Directory,
        key: "ab".repeat(32),
        peers: vec![peer("n0"), peer("n1")],
        namespaces: Vec::new(),
        missing: Missing::Made,
        ..FragmentSpec::default()
    };
    spec.behaviour.mirrored = true;
    let terms = Terms::open(folder, FragmentIndex(0), 0).unwrap();
    let place = Place::of_mirror(&spec, 0, Key::from_hex(&spec.key).unwrap(), &terms).unwrap();
    let verifier = Arc::new(Verifier::open(folder, &[folder.to_owned()]).unwrap());
    Mirror::new((place, None, FragmentIndex(0)), Arc::new(DiskFolder::open(notes).unwrap()), verifier)
        .unwrap()
}

#[test]
fn nothing_is_changed_here_alone_where_that_cannot_be_noted() {
    let (folder, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mirror = away(folder.path(), notes.path());
    mirror.lock().waiting_since = Instant::now().checked_sub(SILENT_MAX);
    let change = || mirror.change(Ino(7), (&Request::Destroy { ino: Ino(7) }, &[]), || Ok(()));
    // In the way of the note.
    let in_the_way = notes.path().join("meta.alone");
    std::fs::create_dir(&in_the_way).unwrap();
    for _ in 0..2 {
        assert_eq!(change().unwrap_err().raw_os_error(), Some(Errno::ISDIR.raw_os_error()));
    }
    std::fs::remove_dir(&in_the_way).unwrap();
    change().unwrap();
    assert!(disk::exists(&in_the_way).unwrap(), "the next life takes the mirror for whole");
}

#[test]
fn who_uses_an_object_in_doubt_waits_once_for_a_mirror_that_does_not_come() {
    let (folder, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mirror = away(folder.path(), notes.path());
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| mirror.wait_until_judged(Ino(7)));
        while mirror.lock().waiting_since.is_none() {
            std::thread::yield_now();
        }
        assert!(!waits.is_finished());
        mirror.lock().waiting_since = Instant::now().checked_sub(SILENT_MAX);
        mirror.changed.notify_all();
    });
    let again = Instant::now();
    mirror.wait_until_judged(Ino(8));
    assert!(again.elapsed() < SILENT_MAX && !mirror.has_judged_all());
}
