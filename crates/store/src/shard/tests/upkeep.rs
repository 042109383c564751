//! A log that is replaced while others sync it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;

#[test]
fn a_log_is_replaced_beside_any_number_of_syncs() {
    let home = Home::new();
    let (over, next) = (AtomicBool::new(false), AtomicU64::new(1 << 20));
    let change_and_sync = || {
        while !over.load(Ordering::Relaxed) {
            let id = next.fetch_add(1, Ordering::Relaxed);
            let name = id.to_string().into_bytes();
            let create = Request::Create { parent: ROOT, name, mode: 0o600, creator: ME };
            home.shard.handle(Caller::new(SESSION, id), create);
            home.shard.sync_log().unwrap();
        }
    };
    let replaced: Vec<std::io::Result<()>> = std::thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(change_and_sync)));
        let replaced = (0..100).map(|_| home.shard.replace_log()).collect();
        over.store(true, Ordering::Relaxed);
        replaced
    });
    for result in replaced {
        result.unwrap();
    }
}

/// A new file of the root folder.
fn make(name: &str) -> Request {
    Request::Create { parent: ROOT, name: name.into(), mode: 0o600, creator: ME }
}

#[test]
fn where_a_copy_may_lack_files_no_number_of_theirs_is_given_to_another() {
    let mut home = Home::new();
    let before = inode(home.ask(make("before"))).unwrap();
    home.shard.sync_log().unwrap();
    let folder = crate::log_folder::DiskFolder::open(home.shard.lock().log.path().parent().unwrap());
    let folder = folder.unwrap();
    for times in 1..3 {
        super::super::log::restore::note_accepted(&folder).unwrap();
        home.shard = Home::open(home.folder.path());
        let after = inode(home.ask(make(&format!("after-{times}")))).unwrap();
        assert!(after >= Ino(times << 40), "{after} after {before}");
        home.shard.sync_log().unwrap();
    }
}

/// Makes the file `name`, and has the sync of the log fail that was to make it durable.
fn break_log(home: &mut Home, name: &str) {
    assert!(inode(home.ask(make(name))).is_some());
    let sync = home.shard.lock().log.to_sync().unwrap().expect("a name is new");
    assert!(home.shard.lock().log.finish(&sync, Err(Errno::IO.into())).is_err());
}

/// Whether it is `so` before long, while the log is kept up.
fn becomes(home: &Home, so: impl Fn(&Shard) -> bool) -> bool {
    (0..1000).any(|_| {
        home.shard.keep_up();
        std::thread::sleep(std::time::Duration::from_millis(5));
        so(&home.shard)
    })
}

#[test]
fn names_can_change_again_after_one_error_of_the_disk_and_none_that_was_answered_is_lost() {
    let mut home = Home::new();
    assert!(inode(home.ask(make("synced"))).is_some());
    home.shard.sync_log().unwrap();
    break_log(&mut home, "answered");
    assert!(inode(home.ask(make("refused"))).is_none(), "nobody knows what the log keeps");
    assert!(home.shard.sync_log().is_err());

    assert!(becomes(&home, |shard| !shard.lock().log.is_broken()), "the disk works again");
    home.shard.sync_log().unwrap();
    assert!(inode(home.ask(make("later"))).is_some());

    home.shard = Home::open(home.folder.path());
    let mut is_there =
        |name: &str| inode(home.ask(Request::Lookup { parent: ROOT, name: name.into() })).is_some();
    let found = ["synced", "answered", "refused", "later"].map(&mut is_there);
    assert_eq!(found, [true, true, false, true]);
}

#[test]
fn a_log_that_cannot_be_replaced_either_is_named_until_it_is() {
    let mut home = Home::new();
    assert!(inode(home.ask(make("synced"))).is_some(), "the first of a session is synced at once");
    break_log(&mut home, "answered");
    // No file can be made where a folder has the name.
    let draft = home.folder.path().join("meta.log.new");
    std::fs::create_dir(&draft).unwrap();
    assert!(becomes(&home, |shard| shard.log_trouble().is_some()));
    let told = home.shard.log_trouble().unwrap();
    assert!(told.contains("meta.log cannot be written, nor replaced by a new one: Is a directory"), "{told}");
    std::fs::remove_dir(&draft).unwrap();
    assert!(becomes(&home, |shard| shard.log_trouble().is_none()));
    assert!(inode(home.ask(make("later"))).is_some());
}
