//! Objects, and the space that they take.

use std::time::Duration;

use super::*;

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
    objects.write(2, 0, &[1; 8192]).unwrap();
    assert_eq!(errno(objects.write(3, 0, &[1])), Some(Errno::NOSPC.raw_os_error()));
    objects.write(2, 100, &[2; 500]).unwrap();
    objects.destroy(2).unwrap();
    assert_eq!(space.used().unwrap(), 0);
    objects.write(3, 0, &[1]).unwrap();
}

#[test]
fn holes_cost_nothing_and_punching_gives_space_back() {
    let (_folder, space, objects) = objects(1 << 20);
    objects.write(2, 1 << 40, &[1; 4096]).unwrap();
    objects.write(2, 0, &[1; 8192]).unwrap();
    assert_eq!(space.used().unwrap(), 3 * 4096);
    objects.allocate(2, 0, 4096, AllocateMode::PunchHole).unwrap();
    objects.resize(2, 8192).unwrap();
    assert_eq!(space.used().unwrap(), 4096);
    assert_eq!(objects.next_data(2, 0).unwrap(), Some(4096..8192));
}

#[test]
fn what_is_used_is_counted_again_after_a_restart() {
    let (folder, space, objects) = objects(1 << 20);
    objects.write(0x12ab, 5, &[7; 5000]).unwrap();
    objects.write(3, 1 << 20, &[7; 10]).unwrap();
    let again = Arc::new(Space::counted(1 << 20));
    let reopened = open(&folder, again.clone());
    assert_eq!(again.used().unwrap(), space.used().unwrap());
    let mut back = [0; 5000];
    assert_eq!(reopened.read(0x12ab, 5, &mut back).unwrap(), 5000);
    assert_eq!(back, [7; 5000]);
}

#[test]
fn an_object_that_was_never_written_reads_as_empty() {
    let (_folder, _space, objects) = objects(1 << 20);
    assert_eq!(objects.read(9, 0, &mut [0; 10]).unwrap(), 0);
    assert_eq!(objects.measure(9).unwrap(), None);
    objects.destroy(9).unwrap();
    objects.sync(([1; 16], 1), 9).unwrap();
}

#[test]
fn an_object_in_a_counted_folder_is_never_handed_out() {
    let (_folder, _space, objects) = objects(1 << 20);
    assert_eq!(
        errno(objects.descriptor(2, Time::default(), Time::default())),
        Some(Errno::NOTSUP.raw_os_error())
    );
}

#[test]
fn objects_that_were_synced_together_are_not_synced_one_by_one_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (capacity, mountpoint) = (1 << 20, folder.path().to_owned());
    let objects = open(&folder, Arc::new(Space::Volume { capacity, mountpoint, empty: capacity }));
    for ino in 1..=20 {
        objects.write(ino, 0, b"bytes").unwrap();
    }
    objects.sync_before_closing(1..=20, Duration::ZERO);
    assert!((1..=20).all(|ino| !objects.is_unsynced(ino)));
    objects.write(7, 0, b"later").unwrap();
    assert!(objects.is_unsynced(7));
}

#[test]
fn space_that_was_allocated_and_not_written_is_counted_over_a_restart_and_given_back() {
    let (folder, space, objects) = objects(1 << 20);
    objects.allocate(2, 0, 65_536, AllocateMode::Grow).unwrap();
    objects.allocate(2, 131_072, 65_536, AllocateMode::KeepSize).unwrap();
    objects.write(2, 4096, &[7; 100]).unwrap();
    assert_eq!(space.used().unwrap(), 131_072);
    let again = Arc::new(Space::counted(1 << 20));
    let reopened = open(&folder, again.clone());
    assert_eq!(again.used().unwrap(), 131_072);
    // What is written where space was allocated takes no more.
    reopened.write(2, 8192, &[7; 8192]).unwrap();
    assert_eq!(again.used().unwrap(), 131_072);
    reopened.destroy(2).unwrap();
    assert_eq!(again.used().unwrap(), 0);
}
