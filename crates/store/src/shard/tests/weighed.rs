//! What metadata weighs, and what is refused where there is no room for more.

use super::*;

const FULL: Reply = Reply::Failed(Errno::NOSPC.raw_os_error());

/// Whether all that is counted is what counting anew gives. What it is.
#[track_caller]
fn weight(shard: &Shard) -> super::super::tree::weight::Weight {
    let state = shard.lock();
    assert_eq!(state.tree.weight(), state.tree.weighed_anew());
    assert_eq!(state.room.tell().used, state.tree.weight().living);
    state.tree.weight()
}

fn make(kind: FileKind, name: &str, target: &[u8]) -> Request {
    let (parent, name, target) = (ROOT, name.as_bytes().to_vec(), target.to_vec());
    Request::Make { parent, name, kind, mode: 0o755, rdev: 0, target, creator: ME }
}

fn set(ino: Ino, name: &str, len: usize) -> Request {
    Request::SetXattr { ino, name: name.as_bytes().to_vec(), value: vec![7; len], mode: XattrMode::Any }
}

fn rename(name: &str, new_name: &str) -> Request {
    let [name, new_name] = [name, new_name].map(|name| name.as_bytes().to_vec());
    Request::Rename { parent: ROOT, name, new_parent: ROOT, new_name, mode: RenameMode::Replace }
}

/// What the steps of others do not.
fn more_steps(home: &mut Home) {
    home.ask(make(FileKind::Symlink, "link", b"to somewhere"));
    for name in b'a'..b'f' {
        let found = inode(home.ask(Request::Lookup { parent: ROOT, name: vec![name] }));
        let Some(ino) = found else { continue };
        match name % 3 {
            0 => drop(home.ask(Request::RemoveXattr { ino, name: b"user.x".to_vec() })),
            1 => drop(home.ask(rename(&char::from(name).to_string(), &format!("{name} is longer")))),
            _ => drop(home.ask(set(ino, "user.y", 1000))),
        }
    }
    home.ask(rename("link", "a"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn metadata_weighs_the_same_however_it_came_to_be(steps in steps()) {
        let mut home = Home::new();
        walk(&mut home, steps.clone());
        more_steps(&mut home);
        walk(&mut home, steps);
        weight(&home.shard);
        // Each life destroys what nobody has open, when it comes to it.
        let ended = [Request::Goodbye, Request::AwaitDestroyed].map(|last| home.ask(last));
        prop_assert_eq!((ended, home.shard.lock().tree.orphans().count()), ([Reply::Done, Reply::Done], 0));
        let before = weight(&home.shard);
        let again = Home::open(home.folder.path());
        prop_assert_eq!(before, weight(&again));
        again.replace_log().unwrap();
        prop_assert_eq!(before, weight(&Home::open(home.folder.path())));
    }
}

#[test]
fn without_room_for_more_metadata_what_is_there_can_be_read_changed_and_removed() {
    let mut home = Home::new();
    let file = inode(home.ask(make(FileKind::Regular, "file", b""))).unwrap();
    assert_eq!(home.ask(set(file, "user.a", 1000)), Reply::Done);
    assert!(inode(home.ask(make(FileKind::Directory, "old", b""))).is_some());
    // As if another namespace of the fragment had the rest.
    let space = home.shard.lock().room.tell().files * 256;
    let others = home.shard.objects.space().clone();
    others.metadata().changed(0, space - 10_000);
    let folder = |n: usize| make(FileKind::Directory, &format!("{n:03}"), b"");
    let made = (0..1000).take_while(|n| inode(home.ask(folder(*n))).is_some()).count();
    assert!((40..60).contains(&made), "{made} folders");
    let link = Request::Link { ino: file, parent: ROOT, name: vec![b'n'; 200] };
    for more in [folder(999), link, set(file, "user.a", 2000), rename("old", &"n".repeat(250))] {
        assert_eq!(home.ask(more), FULL);
    }
    assert!(matches!(home.ask(Request::ReadDir { ino: ROOT, cookie: 0 }), Reply::Entries { .. }));
    let [size, mode] = [(Some(0), None), (None, Some(0o600))];
    for (size, mode) in [size, mode] {
        let change = Request::SetAttr { ino: file, set: SetAttr { size, mode, ..SetAttr::default() } };
        assert!(matches!(home.ask(change), Reply::Inode(_)));
    }
    assert_eq!(home.ask(set(file, "user.a", 900)), Reply::Done, "that is less");
    assert_eq!(home.ask(rename("000", "001")), Reply::Done, "and so is that");
    for n in 2..made {
        let removed = home.ask(Request::Rmdir { parent: ROOT, name: format!("{n:03}").into_bytes() });
        assert!(matches!(removed, Reply::Removed { .. }), "{removed:?}");
    }
    assert_eq!(home.ask(set(file, "user.a", 2000)), Reply::Done, "there is room again");
    others.metadata().changed(space - 10_000, 0);
    weight(&home.shard);
}

#[test]
fn what_was_removed_and_may_be_open_is_forgotten_where_it_weighs_too_much() {
    let mut home = Home::new();
    for number in 0..100 {
        let ino = inode(home.ask(make(FileKind::Directory, "d", b""))).unwrap();
        (0..4).for_each(|n| assert_eq!(home.ask(set(ino, &format!("user.{n}"), 60_000)), Reply::Done));
        home.ask(Request::Rmdir { parent: ROOT, name: b"d".to_vec() });
        // By who has it open still.
        home.ask(set(ino, "user.0", 64_000));
        let weight = weight(&home.shard);
        assert!(weight.removed <= 16 << 20 && weight.living < 1000, "{weight:?} after {number}");
        assert!(home.shard.lock().tree.get(ino).is_some(), "the last is there");
    }
    let before = weight(&home.shard);
    home.shard.replace_log().unwrap();
    assert_eq!(before, weight(&Home::open(home.folder.path())));
}
