//! Objects, and the space that they take.

use std::fs::File;
use std::time::Duration;

use model::{Ino, NodeName, SessionId};

use super::*;
use crate::integrity::other::NotRead;
use crate::integrity::pace::Pace;

fn open(folder: &tempfile::TempDir, space: Arc<Space>) -> Objects {
    let verifier = Verifier::open(folder.path(), &[folder.path().to_owned()]).unwrap();
    let (root, seals) = (folder.path().join("objects"), folder.path().join("seals"));
    disk::make_folder(&root).unwrap();
    let seals = Place { path: seals, owner: "a test".into() };
    Objects::open(root, seals, space, Arc::new(verifier)).unwrap()
}

fn objects(capacity: u64) -> (tempfile::TempDir, Arc<Space>, Objects) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("objects")).unwrap();
    let space = Arc::new(Space::counted(capacity));
    let objects = open(&folder, space.clone());
    (folder, space, objects)
}

fn errno(result: io::Result<impl std::fmt::Debug>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn a_write_past_the_capacity_is_refused_and_nothing_of_it_stays() {
    let (_folder, space, objects) = objects(8192);
    objects.write(Ino(2), 0, &[1; 8192]).unwrap();
    assert_eq!(errno(objects.write(Ino(3), 0, &[1])), Some(Errno::NOSPC.raw_os_error()));
    objects.write(Ino(2), 100, &[2; 500]).unwrap();
    objects.destroy(Ino(2)).unwrap();
    assert_eq!(space.used().unwrap(), 0);
    objects.write(Ino(3), 0, &[1]).unwrap();
}

#[test]
fn what_comes_back_from_the_mirror_is_counted_once_and_also_past_the_capacity() {
    let (_folder, space, objects) = objects(4 * 4096);
    objects.take(Ino(2), 0, &[1; 8192]).unwrap();
    assert_eq!(space.used().unwrap(), 8192);
    objects.write(Ino(2), 8192, &[1; 4096]).unwrap();
    assert_eq!(space.used().unwrap(), 3 * 4096);
    objects.take(Ino(3), 0, &[1; 8192]).unwrap();
    assert_eq!(space.used().unwrap(), 5 * 4096, "it took as much before");
    assert_eq!(errno(objects.write(Ino(3), 8192, &[1])), Some(Errno::NOSPC.raw_os_error()));
}

#[test]
fn holes_cost_nothing_and_punching_gives_space_back() {
    let (_folder, space, objects) = objects(1 << 20);
    objects.write(Ino(2), 1 << 40, &[1; 4096]).unwrap();
    objects.write(Ino(2), 0, &[1; 8192]).unwrap();
    assert_eq!(space.used().unwrap(), 3 * 4096);
    objects.allocate(Ino(2), 0, 4096, AllocateMode::PunchHole).unwrap();
    objects.resize(Ino(2), 8192).unwrap();
    assert_eq!(space.used().unwrap(), 4096);
    assert_eq!(objects.next_data(Ino(2), 0).unwrap(), Some(4096..8192));
}

#[test]
fn what_is_used_is_counted_again_after_a_restart() {
    let (folder, space, objects) = objects(1 << 20);
    objects.write(Ino(0x12ab), 5, &[7; 5000]).unwrap();
    objects.write(Ino(3), 1 << 20, &[7; 10]).unwrap();
    let again = Arc::new(Space::counted(1 << 20));
    let reopened = open(&folder, again.clone());
    assert_eq!(again.used().unwrap(), space.used().unwrap());
    let mut back = [0; 5000];
    assert_eq!(reopened.read(Ino(0x12ab), 5, &mut back).unwrap(), 5000);
    assert_eq!(back, [7; 5000]);
}

#[test]
fn an_object_that_was_never_written_reads_as_empty() {
    let (_folder, _space, objects) = objects(1 << 20);
    assert_eq!(objects.read(Ino(9), 0, &mut [0; 10]).unwrap(), 0);
    assert_eq!(objects.measure(Ino(9)).unwrap(), None);
    objects.destroy(Ino(9)).unwrap();
    objects.sync((SessionId([1; 16]), 1), Ino(9)).unwrap();
}

#[test]
fn an_object_in_a_counted_folder_is_never_handed_out() {
    let (_folder, _space, objects) = objects(1 << 20);
    assert_eq!(
        errno(objects.descriptor(Ino(2), Time::default(), Time::default())),
        Some(Errno::NOTSUP.raw_os_error())
    );
}

#[test]
fn an_object_that_lost_its_checksums_is_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let (capacity, mountpoint) = (1 << 20, folder.path().to_owned());
    let objects = open(&folder, Arc::new(Space::volume(capacity, mountpoint, capacity)));
    objects.write(Ino(2), 0, &[1; 8192]).unwrap();
    drop(objects.existing_descriptor(Ino(2)).unwrap());
    objects.keeper().unverified.begin("a test".into(), vec![Ino(2)]).unwrap();
    let again = Some(Errno::AGAIN.raw_os_error());
    assert_eq!(errno(objects.existing_descriptor(Ino(2))), again);
    assert_eq!(errno(objects.descriptor(Ino(2), Time::default(), Time::default())), again);
    assert_eq!(objects.read(Ino(2), 0, &mut [0; 8192]).unwrap(), 8192, "it is read as it is, by us");
    objects.write(Ino(2), 0, &[2; 8192]).unwrap();
    drop(objects.existing_descriptor(Ino(2)).unwrap());
}

#[test]
fn objects_that_were_synced_together_are_not_synced_one_by_one_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (capacity, mountpoint) = (1 << 20, folder.path().to_owned());
    let objects = open(&folder, Arc::new(Space::volume(capacity, mountpoint, capacity)));
    for ino in 1..=20 {
        objects.write(Ino(ino), 0, b"bytes").unwrap();
    }
    objects.sync_before_closing((1..=20).map(Ino), Duration::ZERO);
    assert!((1..=20).all(|ino| !objects.is_unsynced(Ino(ino))));
    objects.write(Ino(7), 0, b"later").unwrap();
    assert!(objects.is_unsynced(Ino(7)));
}

#[test]
fn space_that_was_allocated_and_not_written_is_counted_over_a_restart_and_given_back() {
    let (folder, space, objects) = objects(1 << 20);
    objects.allocate(Ino(2), 0, 65_536, AllocateMode::Grow).unwrap();
    objects.allocate(Ino(2), 131_072, 65_536, AllocateMode::KeepSize).unwrap();
    objects.write(Ino(2), 4096, &[7; 100]).unwrap();
    assert_eq!(space.used().unwrap(), 131_072);
    let again = Arc::new(Space::counted(1 << 20));
    let reopened = open(&folder, again.clone());
    assert_eq!(again.used().unwrap(), 131_072);
    // What is written where space was allocated takes no more.
    reopened.write(Ino(2), 8192, &[7; 8192]).unwrap();
    assert_eq!(again.used().unwrap(), 131_072);
    reopened.destroy(Ino(2)).unwrap();
    assert_eq!(again.used().unwrap(), 0);
}

#[test]
fn a_write_that_does_not_fit_makes_no_damage_right() {
    let (folder, space, objects) = objects(2 * 4096);
    objects.write(Ino(2), 0, &[1; 4096]).unwrap();
    objects.write(Ino(3), 0, &[1; 4096]).unwrap();
    objects.adopt().unwrap();
    objects.seal_idle(Duration::ZERO, &mut Pace::new(None)).unwrap();
    let rotten = File::options().write(true).open(objects.path(Ino(2))).unwrap();
    rotten.write_all_at(&[9], 100).unwrap();
    objects.keeper().lost.add(Ino(4), 4096).unwrap();
    let full = Some(Errno::NOSPC.raw_os_error());
    let check = |objects: &Objects, space: &Space| {
        let allocated = objects.allocate(Ino(2), 0, 8192, AllocateMode::Zero);
        for refused in [objects.write(Ino(2), 0, &[1; 8192]), objects.write(Ino(4), 0, &[1; 4096]), allocated]
        {
            assert_eq!(errno(refused), full);
        }
        assert!(objects.read(Ino(2), 0, &mut [0; 4096]).is_err(), "known damage is read");
        assert!(objects.read(Ino(4), 0, &mut [0; 4096]).is_err(), "what was lost reads as empty");
        // What is refused as damaged gives its room back.
        assert!(objects.write(Ino(2), 1, &[1; 10]).is_err());
        assert_eq!(space.used().unwrap(), 8192);
    };
    check(&objects, &space);
    drop(objects);
    let again = Arc::new(Space::counted(2 * 4096));
    let objects = open(&folder, again.clone());
    assert!(objects.read(Ino(2), 0, &mut [0; 4096]).is_err(), "known damage is read after a restart");
    check(&objects, &again);
    // As a whole it may be replaced, once there is room.
    objects.destroy(Ino(3)).unwrap();
    objects.write(Ino(2), 0, &[7; 8192]).unwrap();
    assert_eq!((objects.read(Ino(2), 0, &mut [0; 8192]).unwrap(), again.used().unwrap()), (8192, 8192));
}

#[test]
fn a_stop_while_an_object_is_suspected_of_a_loss_is_no_clean_one() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("objects")).unwrap();
    let verifier = || Arc::new(Verifier::open(folder.path(), &[folder.path().to_owned()]).unwrap());
    let first = verifier();
    let seals = Place { path: folder.path().join("seals"), owner: "a test".into() };
    let space = Arc::new(Space::counted(1 << 20));
    let objects = Objects::open(folder.path().join("objects"), seals, space, first.clone()).unwrap();
    objects.write(Ino(2), 0, b"bytes").unwrap();
    // As when the sync of their whole file system fails; none of the object itself follows.
    objects.suspect_all();
    first.note_clean().unwrap();
    assert_ne!(verifier().number(), first.number(), "nobody is told of the loss");
}

/// As the mirror has them.
#[derive(Debug)]
struct Elsewhere;

impl OtherCopy for Elsewhere {
    fn read(&self, _: Ino, _: u64, len: u32) -> Result<Vec<u8>, NotRead> {
        Ok(vec![7; len as usize])
    }

    fn node(&self) -> NodeName {
        NodeName::literal("n1")
    }
}

#[test]
fn what_is_removed_below_us_and_repaired_or_replaced_is_counted_once() {
    let (_folder, space, objects) = objects(1 << 20);
    let objects = objects.with_other(Arc::new(Elsewhere));
    let gone = |ino| std::fs::remove_file(objects.path(ino)).unwrap();
    objects.write(Ino(2), 0, &[7; 65_536]).unwrap();
    objects.write(Ino(3), 0, &[7; 4096]).unwrap();
    objects.adopt().unwrap();
    objects.seal_idle(Duration::ZERO, &mut Pace::new(None)).unwrap();
    for closed in [false, true, false] {
        gone(Ino(2));
        if closed {
            objects.opened().remove(Ino(2));
        }
        objects.repair_all(Ino(2), &[Fault::Missing { was: 65_536 }], 65_536).unwrap();
        assert_eq!(objects.read(Ino(2), 0, &mut [0; 65_536]).unwrap(), 65_536);
        assert_eq!(space.used().unwrap(), 65_536 + 4096);
    }
    gone(Ino(3));
    objects.write(Ino(3), 0, &[8; 8192]).unwrap();
    assert_eq!(space.used().unwrap(), 65_536 + 8192);
    gone(Ino(2));
    objects.opened().remove(Ino(2));
    objects.destroy(Ino(2)).unwrap();
    assert_eq!(space.used().unwrap(), 8192);
}

#[test]
fn what_a_mirror_is_compared_by_is_read_from_its_disk() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::create_dir(folder.path().join("objects")).unwrap();
    let objects = open(&folder, Arc::new(Space::counted(1 << 20)));
    objects.write(Ino(2), 0, &[7; 8192]).unwrap();
    let file = std::fs::File::open(objects.path(Ino(2))).unwrap();
    let is_cached = || {
        let mut bytes = [0; 4096];
        let parts = &mut [std::io::IoSliceMut::new(&mut bytes)];
        rustix::io::preadv2(&file, parts, 0, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
    };
    assert!(is_cached());
    // The kernel keeps a page that something else looks at in this moment, such as its own search for idle memory.
    let is_let_go = (0..100).any(|_| {
        objects.describe(Ino(2)).unwrap();
        !is_cached()
    });
    assert!(is_let_go, "what a failed sync did not bring to the disk is read back as if it had");
}

#[test]
fn a_list_in_pages_is_made_once_and_has_all_that_stays() {
    let (_folder, _space, objects) = objects(1 << 20);
    let page = |after| -> Vec<u64> {
        objects.page_of(2, Ino(after)).unwrap().into_iter().map(|(ino, _)| u64::from(ino)).collect()
    };
    let write = |ino| objects.write(Ino(ino), 0, b"a").map(drop).unwrap();
    (1..=9).for_each(write);
    assert_eq!(page(0), [1, 2]);
    [3, 4, 6].into_iter().for_each(|ino| objects.destroy(Ino(ino)).unwrap());
    write(20);
    // Those that are gone end no list, and the folders are not searched again.
    assert_eq!([page(2), page(5), page(8), page(9)], [vec![5], vec![7, 8], vec![9], vec![20]]);
    assert_eq!(
        [page(0), page(2), page(2)],
        [[1, 2], [5, 7], [5, 7]],
        "one who asks again is told of what is there"
    );
}

#[test]
fn what_was_cut_off_to_nothing_has_lost_nothing() {
    let (_folder, _space, objects) = objects(8192);
    let session = SessionId::from([1; 16]);
    objects.write(Ino(2), 0, &[1; 4096]).unwrap();
    objects.syncs.failed(Ino(2), &objects.path(Ino(2)), &Errno::IO.into());
    objects.resize(Ino(2), 100).unwrap();
    objects.sync_many(session, &[Ino(2)]).unwrap_err();
    objects.resize(Ino(2), 0).unwrap();
    objects.sync_many(session, &[Ino(2)]).unwrap();
}
