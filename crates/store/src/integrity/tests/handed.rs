//! Objects that are handed out to be read and written without us.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use model::Ino;

use super::{INO, flip, open, scrubbed, seal, whole};
use crate::integrity::report::Fault;
use crate::measure::measure;
use crate::objects::Objects;

/// As an open through the kernel does it; whoever has it closes it again without a word.
fn hand_out(objects: &Objects, ino: Ino) {
    let found = measure(&File::open(objects.path(ino)).unwrap()).unwrap();
    objects.keeper().hand_out(&objects.guard(ino).unwrap().unwrap(), &found).unwrap();
}

fn damaged(objects: &Arc<Objects>) -> Vec<u64> {
    scrubbed(objects).damaged.iter().map(|damage| damage.start).collect()
}

#[test]
fn damage_stays_damage_when_an_object_is_handed_out_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, 0, &vec![3; 100_000]).unwrap();
    seal(&objects);
    flip(&objects, INO, 50_000);
    // At once: its time of change is that of the damage.
    hand_out(&objects, INO);
    seal(&objects);
    assert_eq!(damaged(&objects), [49_152]);
    hand_out(&objects, INO);
    seal(&objects);
    assert_eq!(damaged(&objects), [49_152]);
}

#[test]
fn what_is_written_to_an_object_that_was_handed_out_is_summed_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, 0, &vec![3; 100_000]).unwrap();
    seal(&objects);
    for round in 0..20 {
        objects.write(INO, 10, &[round]).unwrap();
        hand_out(&objects, INO);
        flip(&objects, INO, 50_000);
        seal(&objects);
        assert_eq!(damaged(&objects), [0; 0], "round {round}");
    }
}

#[test]
fn what_changed_on_the_disk_is_not_read_of_an_object_that_nobody_wrote_to_since_it_was_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    objects.write(INO, 0, &vec![3; 100_000]).unwrap();
    seal(&objects);
    // A disk gives no other time of change; here that is so because it changes before it is handed out.
    flip(&objects, INO, 50_000);
    hand_out(&objects, INO);
    assert_eq!(objects.read(INO, 0, &mut [0; 4096]).unwrap(), 4096, "that block is whole");
    let error = objects.read(INO, 49_152, &mut [0; 4096]).unwrap_err();
    assert_eq!(Fault::of(&error), Some(Fault::Blocks { blocks: 12..13 }));
    assert_eq!(damaged(&objects), [49_152], "a scrub looks at it as well");
    objects.write(INO, 50_001, &[1]).expect_err("the rest of the block would look right");
    objects.write(INO, 49_152, &[1; 4096]).unwrap();
    assert_eq!(objects.read(INO, 49_152, &mut [0; 4096]).unwrap(), 4096, "it was written anew");
}

#[test]
fn what_was_cut_off_or_lost_on_the_disk_is_not_read_of_an_object_that_was_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    for ino in [INO, Ino(78)] {
        objects.write(ino, 0, &vec![3; 100_000]).unwrap();
    }
    seal(&objects);
    let lost = File::options().write(true).open(objects.path(INO)).unwrap();
    lost.set_len(0).and_then(|()| lost.set_len(100_000)).unwrap();
    hand_out(&objects, INO);
    assert!(objects.next_data(INO, 0).unwrap().is_some(), "it had bytes");
    assert!(objects.read(INO, 0, &mut [0; 4096]).is_err());

    // Between the open and now.
    hand_out(&objects, Ino(78));
    let cut = File::options().write(true).open(objects.path(Ino(78))).unwrap();
    cut.set_len(50_000).unwrap();
    assert_eq!(objects.read(Ino(78), 0, &mut [0; 100_000]).unwrap(), 50_000, "it has another time of change");
}

#[test]
fn who_writes_to_an_object_that_was_handed_out_never_makes_it_look_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    for round in 0..30 {
        let ino = Ino(100 + round);
        objects.write(ino, 0, &vec![3; 400_000]).unwrap();
        seal(&objects);
        hand_out(&objects, ino);
        let file = File::options().write(true).open(objects.path(ino)).unwrap();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(whole(&objects, ino).unwrap().len(), 400_000);
                }
            });
            while !reading.is_finished() {
                file.write_all_at(&[round as u8; 5000], 20_000 * (round % 15)).unwrap();
            }
        });
        assert_eq!(damaged(&objects), [0; 0], "round {round}");
    }
}
