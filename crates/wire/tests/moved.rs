//! Fragments that have another node: one folder for all tests, as for all threads of a process.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use model::{FragmentIndex, InstanceId, NodeName, SessionId};
use wire::data::connection::Connection;
use wire::data::hello::Claim;
use wire::data::moved::{self, NAME, Place, address_of, look_above};
use wire::data::stream::Stream;
use wire::data::{Reply, Request};
use wire::node::StorageAddress;

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("forebay-moved-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    look_above(&folder.join("mounts/m/spec.json"));
    folder
}

fn address(node: &str) -> StorageAddress {
    StorageAddress { node: NodeName::unchecked(node), tcp: format!("{node}:1"), unix: None }
}

fn claim(instance: &str, fragment: u32) -> Claim {
    let fragment = FragmentIndex(fragment);
    Claim { instance: InstanceId::unchecked(instance), namespace: 0, fragment, session: SessionId([0; 16]) }
}

fn with(text: &str, instance: &str, fragment: FragmentIndex, address: &StorageAddress) -> Option<String> {
    moved::with(text, &InstanceId::unchecked(instance), fragment, address)
}

#[test]
fn the_last_place_of_a_fragment_counts_and_who_waits_for_another_waits_no_longer() {
    let text = with("", "i1", FragmentIndex(1), &address("a")).unwrap();
    let text = with(&text, "i2", FragmentIndex(1), &address("b")).unwrap();
    let text = with(&text, "i1", FragmentIndex(1), &address("c")).unwrap();
    assert_eq!(text, "i2 1 b b:1\ni1 1 c c:1\n");
    assert_eq!(with(&text, "i2", FragmentIndex(1), &address("b")), None, "it says so");
    let folder = folder();
    let file = folder.join(NAME);
    std::fs::write(&file, format!("i1 1 a a:1\ni1 one a a:2\n{text}i1 1\n\n")).unwrap();
    assert_eq!(address_of(&claim("i1", 1)), Some(address("c")));
    assert_eq!(address_of(&claim("i2", 1)), Some(address("b")));
    assert_eq!(address_of(&claim("i1", 0)), None);

    // A node that is slow is waited for, one that hangs and was given up is not.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let place = Place::of(&claim("i1", 0));
    let moved = move || place.has_moved().map(|to| format!("it is on node {} now", to.node));
    let mut asking = Connection::waiting_unless(Stream::Unix(ours), moved).unwrap();
    let mut node = Connection::new(Stream::Unix(theirs));
    let slow = std::thread::spawn(move || {
        node.receive::<Request>().unwrap();
        std::thread::sleep(Duration::from_secs(3));
        node.send(7, &Reply::Done, &[]).unwrap();
        node
    });
    asking.send(7, &Request::Ping, &[]).unwrap();
    assert_eq!(asking.receive::<Reply>().unwrap().id, 7);
    let hangs = slow.join().unwrap();
    asking.send(8, &Request::Ping, &[]).unwrap();
    std::fs::write(&file, with(&text, "i1", FragmentIndex(0), &address("d")).unwrap()).unwrap();
    // Else it would be waited for as long as it hangs.
    let ends = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(15));
        drop(hangs);
    });
    let error = asking.receive::<Reply>().unwrap_err();
    assert!(!ends.is_finished(), "{error}");
    assert_eq!(error.to_string(), "it is on node d now");
    std::fs::remove_dir_all(&folder).unwrap();
}
