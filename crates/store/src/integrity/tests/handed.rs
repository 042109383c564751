//! Objects that are handed out to be read and written without us.

use std::sync::Arc;

use model::Ino;

use super::{INO, flip, open, scrubbed, seal};
use crate::measure::measure;
use crate::objects::Objects;

/// As an open through the kernel does it; whoever has it closes it again without a word.
fn hand_out(objects: &Objects, ino: Ino) {
    let found = measure(&std::fs::File::open(objects.path(ino)).unwrap()).unwrap();
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
