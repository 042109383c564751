//! Fragments come, go and are there again, without a client.

use model::stripe::Layout;
use model::{FragmentIndex, InstanceId, NodeName};
use wire::control::{ErrorCode, Owner};
use wire::node::{FragmentSpec, NamespaceSpec};

use super::starting::Starting;
use super::*;
use crate::fragment::due::{self, Due};
use crate::mirror::restore_error::RestoreError;

fn spec(namespaces: &[u32]) -> FragmentSpec {
    let namespace = |id: &u32| NamespaceSpec {
        id: *id,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        owner: Owner { uid: 0, gid: 0 },
        mode: 0o700,
    };
    FragmentSpec {
        instance: InstanceId::literal("i1"),
        index: FragmentIndex(0),
        capacity_bytes: 1 << 20,
        volume: VolumeKind::Directory,
        key: "ab".repeat(32),
        peers: Vec::new(),
        namespaces: namespaces.iter().map(namespace).collect(),
        missing: wire::node::Missing::Made,
        ..FragmentSpec::default()
    }
}

#[test]
fn namespaces_are_added_to_a_fragment_and_are_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let has = |server: &Server| {
        let fragment = server.fragment(&InstanceId::literal("i1")).unwrap();
        [0, 16, 17].map(|id| fragment.namespace(id).is_some_and(|namespace| namespace.shard.is_some()))
    };
    let server = Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    server.create_fragment(&spec(&[0])).unwrap();
    assert_eq!(has(&server), [true, false, false]);
    server.create_fragment(&spec(&[0, 16])).unwrap();
    server.create_fragment(&spec(&[0, 17])).unwrap();
    assert_eq!(has(&server), [true, true, true]);
    server.shutdown();
    let server = Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    assert_eq!(has(&server), [true, true, true]);
}

#[test]
fn a_fragment_that_is_still_starting_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    let status = server.create_fragment(&spec(&[0])).unwrap();
    server.slots().insert(InstanceId::literal("i1"), Slot::Starting(status));
    let error = server.create_fragment_within(Duration::ZERO, &spec(&[0])).unwrap_err();
    assert_eq!(error.code, ErrorCode::FragmentStarting, "{error}");
}

#[test]
fn a_fragment_that_is_removed_while_its_objects_are_fetched_does_not_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    server.create_fragment(&spec(&[0])).unwrap();
    let folder = dir.path().join("i1");
    due::note(&folder, Due::Everything).unwrap();
    let terms = server.terms(&folder, &spec(&[0])).unwrap();
    let starting = Starting::of(&InstanceId::literal("i1"), &folder, &spec(&[0]), &terms).unwrap().unwrap();
    server.delete_fragment(&InstanceId::literal("i1")).unwrap();
    let away =
        || RestoreError::Away { node: NodeName::literal("n1"), cause: std::io::ErrorKind::TimedOut.into() };
    for taken in [Ok(()), Err(away()), Err(RestoreError::Lacking { node: NodeName::literal("n1") })] {
        assert!(server.taken(&starting, taken), "there is nothing to be fetched again");
        assert!(server.status_of(&InstanceId::literal("i1")).is_none(), "it came back");
    }
}

#[test]
fn a_fragment_of_another_buffer_with_the_same_id_is_neither_used_nor_removed() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    let server = open();
    let theirs = spec(&[0]);
    server.create_fragment(&theirs).unwrap();
    server.shutdown();
    let server = open();
    let ours = FragmentSpec { key: "cd".repeat(32), ..spec(&[0, 16]) };
    let refused = server.create_fragment(&ours).unwrap_err();
    assert_eq!(refused.code, ErrorCode::FragmentOfAnother, "{refused}");
    // As control does it with what could not be made.
    server.delete_fragment(&InstanceId::literal("i1")).unwrap();
    assert!(server.fragment(&InstanceId::literal("i1")).expect("it is kept").namespace(16).is_none());
    // The node is started again before control asks for that once more.
    server.shutdown();
    let server = open();
    server.delete_fragment(&InstanceId::literal("i1")).unwrap();
    assert!(
        server
            .fragment(&InstanceId::literal("i1"))
            .expect("it is kept, by the next life too")
            .namespace(16)
            .is_none()
    );
    // Whose it is may use and remove it.
    server.create_fragment(&theirs).unwrap();
    server.delete_fragment(&InstanceId::literal("i1")).unwrap();
    server.create_fragment(&ours).unwrap();
}

#[test]
fn fragments_start_while_others_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join(".removing-i2/objects")).unwrap();
    std::fs::create_dir_all(dir.path().join(".making-i3")).unwrap();
    let server = Server::open(dir.path().into(), NodeName::literal("n0")).unwrap();
    let i4 = FragmentSpec { instance: InstanceId::literal("i4"), ..spec(&[0]) };
    server.create_fragment(&i4).unwrap();
    // As long as somebody removes objects.
    let under_way = server.removing.lock().unwrap();
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| server.delete_fragment(&InstanceId::literal("i4")));
        server.create_fragment(&spec(&[0])).unwrap();
        let folder = dir.path().join("i1");
        let terms = server.terms(&folder, &spec(&[0])).unwrap();
        due::note(&folder, Due::Everything).unwrap();
        let starting =
            Starting::of(&InstanceId::literal("i1"), &folder, &spec(&[0]), &terms).unwrap().unwrap();
        let status = server.status_of(&InstanceId::literal("i1")).unwrap();
        server.slots().insert(InstanceId::literal("i1"), Slot::Starting(status));
        assert!(server.taken(&starting, Ok(())), "its start waits");
        drop(under_way);
        deleting.join().unwrap().unwrap();
    });
    let begun = std::time::Instant::now();
    while disk::names(dir.path()).unwrap().iter().any(|found| found.stage != disk::Stage::InUse) {
        assert!(begun.elapsed() < Duration::from_secs(60), "what was set aside stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(
        server.status_of(&InstanceId::literal("i4")).is_none()
            && !disk::exists(&dir.path().join("i4")).unwrap()
    );
}
