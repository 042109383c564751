//! A node's folder is put back from before a change of the key.

use model::FragmentIndex;
use model::stripe::Layout;
use wire::control::Owner;
use wire::data::hello::Key;
use wire::node::{Missing, NamespaceSpec};

use super::*;

fn key(byte: u8) -> String {
    wire::hex::encode(&[byte; 32])
}

/// The only part of an instance, in its first step.
fn spec() -> FragmentSpec {
    let namespace = NamespaceSpec {
        id: 0,
        layout: Layout::striped(1),
        home: FragmentIndex(0),
        owner: Owner { uid: 0, gid: 0 },
        mode: 0o700,
    };
    FragmentSpec {
        instance: InstanceId::literal("i1"),
        capacity_bytes: 1 << 20,
        key: key(1),
        stage_verifier: key(9),
        namespaces: vec![namespace],
        missing: Missing::Made,
        ..FragmentSpec::default()
    }
}

fn known(key_step: u64, given_up: bool) -> [KnownPart; 1] {
    [KnownPart { instance: InstanceId::literal("i1"), key_step, given_up }]
}

/// What a later life of the node finds, which was made in the first step; it has heard nothing.
fn found(dir: &Path) -> Arc<Server> {
    let name = || NodeName::literal("n1");
    let server = Server::open(dir.into(), name()).unwrap();
    server.create_fragment(&spec()).unwrap();
    server.shutdown();
    Server::open_unheard(dir.into(), name()).unwrap()
}

fn served_with(server: &Server) -> Option<Key> {
    server.fragment(&InstanceId::literal("i1")).map(|fragment| fragment.keys().shown())
}

#[test]
fn one_with_a_former_key_is_not_served_before_control_brings_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = found(dir.path());
    assert_eq!(served_with(&server), None, "control has said nothing yet");
    server.hear_of_parts(Some(&known(3, false)));
    let status = server.fragments().remove(0);
    assert!(status.retried && status.error.unwrap().contains("from before a change"));
    assert_eq!(served_with(&server), None);
    assert!(server.may_come(&status.instance), "clients wait for it");
    let present = FragmentSpec { key: key(2), key_step: 3, missing: Missing::Refused, ..spec() };
    let status = server.create_fragment(&present).unwrap();
    assert_eq!((status.key_step, status.error), (3, None));
    assert_eq!(served_with(&server), Key::from_hex(&key(2)));
    server.shutdown();
    let next = Server::open_unheard(dir.path().into(), NodeName::literal("n1")).unwrap();
    next.hear_of_parts(Some(&known(5, false)));
    assert_eq!(
        served_with(&next),
        Key::from_hex(&key(2)),
        "a change that is not finished changes nothing here"
    );
}

#[test]
fn one_whose_key_others_refuse_is_served_when_control_says_that_it_is_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = found(dir.path());
    let refused = FragmentError::FormerKey { found_by: "a node with another part refuses it" };
    server.hear_of_parts(None);
    let fragment = server.fragment(&InstanceId::literal("i1")).unwrap();
    server.refuse(fragment.status(), &refused);
    fragment.close();
    drop(fragment);
    for (key_step, given_up) in [(3, false), (0, true)] {
        server.hear_of_parts(Some(&known(key_step, given_up)));
        assert_eq!(served_with(&server), None);
    }
    server.hear_of_parts(Some(&known(0, false)));
    assert_eq!(served_with(&server), Key::from_hex(&key(1)));
}

#[test]
fn one_that_was_given_up_is_not_served_whatever_its_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = found(dir.path());
    server.hear_of_parts(Some(&known(0, true)));
    assert_eq!(served_with(&server), None);
    assert!(server.is_replaced(&InstanceId::literal("i1")));
}

#[test]
fn what_control_does_not_know_or_says_nothing_of_is_served() {
    for known in [Some(&[][..]), None] {
        let dir = tempfile::tempdir().unwrap();
        let server = found(dir.path());
        server.hear_of_parts(known);
        assert_eq!(served_with(&server), Key::from_hex(&key(1)));
    }
}

#[test]
fn a_key_is_changed_when_what_was_asked_for_with_the_former_one_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::open(dir.path().into(), NodeName::literal("n1")).unwrap();
    server.create_fragment(&spec()).unwrap();
    let fragment = server.fragment(&InstanceId::literal("i1")).unwrap();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let session = model::SessionId([3; 16]);
    // A request of it is being served.
    let number =
        fragment.connections().add(std::sync::Arc::new(wire::data::Stream::Unix(ours)), session, 0).unwrap();
    let present = FragmentSpec { key: key(2), key_step: 3, missing: Missing::Refused, ..spec() };
    std::thread::scope(|scope| {
        let changed = scope.spawn(|| server.create_fragment(&present).unwrap().key_step);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(!changed.is_finished(), "it may still change something");
        fragment.connections().remove(number);
        assert_eq!(changed.join().unwrap(), 3);
    });
}

#[test]
fn who_asks_for_what_is_there_does_not_wait_for_others_that_were_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::open(dir.path().into(), NodeName::literal("n1")).unwrap();
    server.create_fragment(&spec()).unwrap();
    let fragment = server.fragment(&InstanceId::literal("i1")).unwrap();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let session = model::SessionId([3; 16]);
    fragment.connections().add(std::sync::Arc::new(wire::data::Stream::Unix(ours)), session, 0).unwrap();
    fragment.connections().end_all();
    let begun = std::time::Instant::now();
    server.create_fragment(&FragmentSpec { missing: Missing::Refused, ..spec() }).unwrap();
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "a job's start is held up");
}
