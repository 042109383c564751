//! Objects that get longer or shorter on the disk.

use std::fs::File;
use std::os::unix::fs::FileExt;

use model::Ino;
use wire::data::message::AllocateMode;

use super::{INO, open, scrubbed, seal, whole};

#[test]
fn what_is_cut_off_or_grows_on_the_disk_is_never_made_to_look_right() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let cut = |ino, length| {
        let object = File::options().write(true).open(objects.path(ino)).unwrap();
        object.set_len(length).unwrap();
    };
    for ino in 1..=3 {
        objects.write(Ino(ino), 0, &vec![7; 20_000]).unwrap();
    }
    seal(&objects);
    // While it is being changed, and when it is sealed again.
    for ino in 1..=2 {
        objects.write(Ino(ino), 0, &[8; 10]).unwrap();
        cut(Ino(ino), 5000);
    }
    let failure = whole(&objects, Ino(1)).unwrap_err().to_string();
    assert!(failure.contains("it had 20000 bytes when it was sealed, and has 5000"), "{failure}");
    seal(&objects);
    assert!(whole(&objects, Ino(2)).is_err());
    // Of one that grew, the new end would stay.
    cut(Ino(3), 30_000);
    let again = open(folder.path());
    assert!(again.write(Ino(3), 0, &vec![9; 20_000]).is_err());
    again.resize(Ino(3), 0).unwrap();
    again.write(Ino(3), 0, &[9; 10]).unwrap();
    assert_eq!(whole(&again, Ino(3)).unwrap(), [9; 10]);
}

#[test]
fn an_object_that_gets_longer_below_its_node_is_damaged_for_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let objects = std::sync::Arc::new(open(folder.path()));
    for ino in 1..=6 {
        objects.write(Ino(ino), 0, &vec![7; 20_000]).unwrap();
    }
    seal(&objects);
    // A block is being changed of one of each kind.
    for ino in [2, 4] {
        objects.write(Ino(ino), 0, &[8; 10]).unwrap();
    }
    for ino in 1..=6 {
        let object = File::options().write(true).open(objects.path(Ino(ino))).unwrap();
        match ino {
            1 | 2 | 5 => object.set_len(30_000).unwrap(),
            _ => object.write_all_at(&[9; 9000], 20_000).unwrap(),
        }
    }
    assert!(
        objects.write(Ino(5), 20_000, &[1; 10]).is_err(),
        "what was added below it would seem to be appended"
    );
    assert!(objects.write(Ino(6), 0, &[1; 20_000]).is_err(), "it would keep the end that it was given");
    for ino in 1..=6 {
        assert_eq!(objects.measure(Ino(ino)).unwrap().unwrap().size, 20_000, "{ino}");
        let failure = whole(&objects, Ino(ino)).unwrap_err().to_string();
        assert!(failure.contains("it had 20000 bytes when it was sealed, and has"), "{ino}: {failure}");
        assert!(objects.next_data(Ino(ino), 20_000).is_err(), "{ino}");
    }
    seal(&objects);
    let damaged: Vec<Ino> = scrubbed(&objects).damaged.iter().map(|damage| damage.ino).collect();
    assert_eq!(damaged, [1, 2, 3, 4, 5, 6].map(Ino));
    objects.resize(Ino(1), 0).unwrap();
    objects.write(Ino(1), 0, &[9; 10]).unwrap();
    assert_eq!(whole(&objects, Ino(1)).unwrap(), [9; 10]);
}

#[test]
fn a_scrub_finds_an_object_that_got_longer_and_that_nobody_uses() {
    let folder = tempfile::tempdir().unwrap();
    let objects = std::sync::Arc::new(open(folder.path()));
    objects.write(Ino(1), 0, &[7; 4096]).unwrap();
    seal(&objects);
    File::options().write(true).open(objects.path(Ino(1))).unwrap().set_len(50_000).unwrap();
    assert_eq!(scrubbed(&objects).damaged.len(), 1);
}

#[test]
fn what_makes_an_object_longer_through_the_node_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let objects = std::sync::Arc::new(open(folder.path()));
    for ino in 1..=4 {
        objects.write(Ino(ino), 0, &[7; 4096]).unwrap();
    }
    seal(&objects);
    objects.allocate(Ino(1), 100, 9000, AllocateMode::Grow).unwrap();
    objects.resize(Ino(2), 9100).unwrap();
    objects.write(Ino(3), 9000, &[0; 100]).unwrap();
    // This one stays as long as it is.
    objects.allocate(Ino(4), 0, 9100, AllocateMode::KeepSize).unwrap();
    for _sealed in [false, true] {
        for (ino, length) in [(1, 9100), (2, 9100), (3, 9100), (4, 4096)] {
            let mut expected = vec![7; 4096];
            expected.resize(length, 0);
            assert_eq!(whole(&objects, Ino(ino)).unwrap(), expected, "{ino}");
            assert_eq!(objects.measure(Ino(ino)).unwrap().unwrap().size, length as u64, "{ino}");
        }
        seal(&objects);
    }
    assert!(scrubbed(&objects).damaged.is_empty());
}

#[test]
fn data_of_a_file_at_rest_is_found_from_every_offset_as_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    // A hole in the middle, and an end that is none of a block.
    objects.write(INO, 0, &[1; 5000]).unwrap();
    objects.write(INO, 40_960, &[2; 5004]).unwrap();
    let offsets =
        [0, 1, 4095, 4096, 4999, 5000, 8191, 8192, 8193, 40_959, 40_960, 40_961, 45_963, 45_964, 1 << 20];
    let found = || offsets.map(|at| objects.next_data_unjudged(INO, at).unwrap());
    let fresh = found();
    assert_eq!(fresh[1], Some(1..8192));
    seal(&objects);
    assert_eq!(found(), fresh);
    // Whoever reads all of it comes to an end.
    objects.read_all(INO).unwrap();
}
