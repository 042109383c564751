//! Objects whose bytes change on the disk.

mod handed;
mod known;
mod layouts;
mod length;
mod loss;
mod noting;
mod sparse;
mod unopened;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::Ino;
use proptest::prelude::*;
use wire::data::message::AllocateMode;
use wire::node::ScrubStatus;

use super::log::Place;
use super::pace::Pace;
use crate::objects::Objects;
use crate::objects::space::Space;
use crate::scrub::{self, schedule::Schedule};
use crate::verifier::Verifier;

const INO: Ino = Ino(77);

#[test]
fn a_block_that_ends_early_is_summed_with_the_zeros_after_it() {
    assert_eq!(super::sum_of(&[]), super::SUM_OF_ZEROS);
    assert_eq!(super::sum_of(b"end"), super::sum_of(&[b"end".as_slice(), &[0; 4093]].concat()));
}

fn open(folder: &Path) -> Objects {
    fs::create_dir_all(folder.join("objects")).unwrap();
    let space = Arc::new(Space::counted(1 << 30));
    let verifier = Arc::new(Verifier::open(folder, &[folder.to_owned()]).unwrap());
    let seals = Place { path: folder.join("seals"), owner: "a test".into() };
    Objects::open(folder.join("objects"), seals, space, verifier).unwrap()
}

fn seal(objects: &Objects) {
    objects.adopt().unwrap();
    objects.seal_idle(Duration::ZERO, &mut Pace::new(None)).unwrap();
}

fn flip(objects: &Objects, ino: Ino, at: u64) {
    let file = File::options().read(true).write(true).open(objects.path(ino)).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn scrubbed(objects: &Arc<Objects>) -> ScrubStatus {
    scrub::start(objects, 0, None, Duration::ZERO);
    while scrub::status(objects, 0).running {
        std::thread::yield_now();
    }
    scrub::status(objects, 0)
}

fn whole(objects: &Objects, ino: Ino) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4 << 20];
    let read = objects.read(ino, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[test]
fn a_week_is_counted_from_the_last_whole_scrub_and_not_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("seals.scrubbed");
    let days_ago = |days: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        fs::write(&mark, (now - days * 24 * 3600).to_string()).unwrap();
    };
    // As each start of a node does it.
    let is_scrubbed = || {
        let objects = Arc::new(open(folder.path()));
        objects.write(INO, 0, b"bytes").unwrap();
        Schedule::of(&objects).turn(&objects, 0, Duration::from_secs(10));
        while scrub::status(&objects, 0).running {
            std::thread::sleep(Duration::from_millis(1));
        }
        scrub::status(&objects, 0).begun
    };
    assert!(!is_scrubbed(), "it is new");
    days_ago(8);
    assert!(is_scrubbed(), "it was long ago");
    assert!(!is_scrubbed(), "it was just done");
    days_ago(6);
    assert!(!is_scrubbed(), "it is not due yet");
    fs::write(&mark, "damaged").unwrap();
    assert!(!is_scrubbed(), "nobody knows");
}

#[test]
fn what_lies_beside_removed_objects_is_compared_with_its_sums_also_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    for ino in 1..=64 {
        objects.write(Ino(ino), 0, &vec![ino as u8; 10_000]).unwrap();
    }
    seal(&objects);
    (1..=8).for_each(|ino| objects.destroy(Ino(ino)).unwrap());
    drop(objects);
    let objects = open(folder.path());
    for ino in 9..=64 {
        flip(&objects, Ino(ino), 5000);
        assert!(whole(&objects, Ino(ino)).is_err(), "a wrong bit of object {ino} is read");
        flip(&objects, Ino(ino), 5000);
    }
    // Of those that were about to be removed as well, a power loss may have kept that note and not the removal's.
    fs::remove_file(objects.path(Ino(9))).unwrap();
    drop(objects);
    let objects = open(folder.path());
    assert!(whole(&objects, Ino(9)).unwrap().is_empty(), "it was removed");
    // Once that is known, all others have to be there again.
    seal(&objects);
    (10..=64).for_each(|ino| fs::remove_file(objects.path(Ino(ino))).unwrap());
    drop(objects);
    let objects = open(folder.path());
    assert!(whole(&objects, Ino(9)).unwrap().is_empty());
    assert!(
        (10..=64).all(|ino| whole(&objects, Ino(ino)).is_err()),
        "an object that is lost reads as nothing"
    );
}

#[test]
fn what_changes_on_the_disk_is_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    for ino in 1..=5 {
        objects.write(Ino(ino), 0, &vec![ino as u8; 300_000]).unwrap();
    }
    seal(&objects);
    flip(&objects, Ino(1), 299_999);
    File::options().write(true).open(objects.path(Ino(2))).unwrap().set_len(4096).unwrap();
    for objects in [objects, open(folder.path())] {
        let failure = whole(&objects, Ino(1)).unwrap_err().to_string();
        assert!(failure.contains("inode 1: bytes 299008 to 303104"), "{failure}");
        assert!(objects.read(Ino(1), 299_990, &mut [0; 4]).is_err());
        assert!(objects.read(Ino(1), 0, &mut [0; 4096]).is_ok());
        assert!(whole(&objects, Ino(2)).unwrap_err().to_string().contains("it had 300000 bytes"));
        assert_eq!(objects.measure(Ino(2)).unwrap().unwrap().size, 300_000);
        assert_eq!(whole(&objects, Ino(5)).unwrap(), vec![5; 300_000]);
    }
    fs::remove_file(open(folder.path()).path(Ino(3))).unwrap();
    let objects = open(folder.path());
    assert!(whole(&objects, Ino(3)).is_err() && objects.write(Ino(3), 5, &[1]).is_err());
    assert_eq!(objects.measure(Ino(3)).unwrap().unwrap().size, 300_000);
    assert!(objects.next_data(Ino(3), 0).is_err());
    objects.resize(Ino(3), 0).unwrap();
    assert!(whole(&objects, Ino(3)).unwrap().is_empty());
    objects.write(Ino(3), 0, &[9; 10]).unwrap();
    seal(&objects);
    assert_eq!(whole(&open(folder.path()), Ino(3)).unwrap(), [9; 10]);
}

#[test]
fn what_is_written_to_an_object_that_was_removed_below_the_node_is_never_lost_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    for ino in 1..=4 {
        objects.write(Ino(ino), 0, &vec![7; 20_000]).unwrap();
    }
    seal(&objects);
    for ino in 1..=3 {
        fs::remove_file(objects.path(Ino(ino))).unwrap();
    }
    fs::rename(objects.path(Ino(4)), objects.path(Ino(3))).unwrap();
    assert!(objects.write(Ino(1), 20_000, &[8; 10]).is_err(), "the rest of it is gone");
    objects.write(Ino(2), 0, &vec![9; 30_000]).unwrap();
    objects.resize(Ino(3), 0).unwrap();
    objects.write(Ino(3), 0, &[3; 10]).unwrap();
    let again = open(folder.path());
    assert!(whole(&again, Ino(1)).is_err());
    assert_eq!(whole(&again, Ino(2)).unwrap(), vec![9; 30_000]);
    assert_eq!(whole(&again, Ino(3)).unwrap(), [3; 10]);
}

#[test]
fn a_scrub_finds_damage_of_an_object_whose_seal_was_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    for ino in 1..=8 {
        objects.write(Ino(ino), 0, &[ino as u8; 5000]).unwrap();
    }
    seal(&objects);
    // Each lifts seals of its neighbours.
    for ino in 1..=4 {
        objects.write(Ino(ino), 0, &[200]).unwrap();
    }
    seal(&objects);
    (5..=8).for_each(|ino| flip(&objects, Ino(ino), 100));
    let damaged: Vec<Ino> = scrubbed(&objects).damaged.iter().map(|damage| damage.ino).collect();
    assert_eq!(damaged, [5, 6, 7, 8].map(Ino));
}

#[test]
fn a_damaged_block_is_never_summed_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    objects.write(INO, 0, &vec![3; 100_000]).unwrap();
    seal(&objects);
    flip(&objects, INO, 50_000);
    assert!(objects.write(INO, 50_001, &[1]).is_err(), "a part of the block stays");
    objects.write(INO, 8192, &[4; 100]).unwrap();
    seal(&objects);
    assert!(objects.read(INO, 49_152, &mut [0; 4096]).is_err());
    assert!(open(folder.path()).read(INO, 49_152, &mut [0; 4096]).is_err());
    // As a whole it may be replaced.
    objects.write(INO, 49_152, &[5; 4096]).unwrap();
    seal(&objects);
    assert_eq!(objects.read(INO, 49_152, &mut [0; 4096]).unwrap(), 4096);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, usize, u8),
    Resize(u64),
    Punch(u64, u64),
    Seal,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..2_200_000_u64;
    prop_oneof![
        4 => (at.clone(), 1..300_000_usize, any::<u8>()).prop_map(|(at, len, byte)| Step::Write(at, len, byte)),
        1 => at.clone().prop_map(Step::Resize),
        1 => (at, 1..200_000_u64).prop_map(|(at, len)| Step::Punch(at, len)),
        3 => Just(Step::Seal),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_write_is_checked_as_a_model_says(steps in prop::collection::vec(step(), 1..25), reads in prop::collection::vec((0..2_300_000_u64, 1..70_000_usize), 8)) {
        let folder = tempfile::tempdir().unwrap();
        let mut objects = open(folder.path());
        let mut model: Vec<u8> = Vec::new();
        for step in steps {
            match step {
                Step::Write(at, len, byte) => {
                    let end = at as usize + len;
                    model.resize(model.len().max(end), 0);
                    model[at as usize..end].fill(byte);
                    objects.write(INO, at, &vec![byte; len]).unwrap();
                }
                Step::Resize(size) => {
                    model.resize(size as usize, 0);
                    objects.resize(INO, size).unwrap();
                }
                Step::Punch(at, len) => {
                    let end = model.len().min((at + len) as usize);
                    if let Some(range) = model.get_mut((at as usize).min(end)..end) {
                        range.fill(0);
                    }
                    objects.allocate(INO, at, len, AllocateMode::PunchHole).unwrap();
                }
                Step::Seal => seal(&objects),
                Step::Reopen => objects = open(folder.path()),
            }
            prop_assert!(whole(&objects, INO).unwrap() == model);
            for (at, len) in &reads {
                let mut bytes = vec![0; *len];
                let read = objects.read(INO, *at, &mut bytes).unwrap();
                let start = (*at as usize).min(model.len());
                prop_assert!(bytes[..read] == model[start..model.len().min(start + len)]);
            }
        }
        // And a bit that flips in what is sealed is seen.
        seal(&objects);
        if !model.is_empty() {
            let at = model.len() as u64 / 2;
            flip(&objects, INO, at);
            prop_assert!(objects.read(INO, at, &mut [0; 1]).is_err());
        }
    }
}
