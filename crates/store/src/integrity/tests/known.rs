//! What was found damaged, and who remembers it.

use std::fs;
use std::sync::Arc;

use model::Ino;

use super::{flip, open, seal, whole};
use crate::objects::Objects;
use crate::scrub;

fn write(objects: &Objects, ino: Ino, len: usize) {
    objects.write(ino, 0, &vec![7; len]).unwrap();
}

fn scrubbed(objects: &Arc<Objects>) -> Vec<(Ino, u64)> {
    super::scrubbed(objects);
    listed(objects)
}

fn listed(objects: &Objects) -> Vec<(Ino, u64)> {
    scrub::status(objects, 0).damaged.iter().map(|damage| (damage.ino, damage.start)).collect()
}

fn count(objects: &Objects) -> usize {
    objects.keeper().known.count()
}

#[test]
fn what_a_scrub_found_is_told_after_a_restart_until_it_is_written_anew_removed_or_found_whole() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    (1..=4).for_each(|ino| write(&objects, Ino(ino), 100_000));
    seal(&objects);
    (1..=3).for_each(|ino| flip(&objects, Ino(ino), 50_000));
    let found = [1, 2, 3].map(|ino| (Ino(ino), 49_152));
    assert_eq!(scrubbed(&objects), found);
    drop(objects);

    let objects = Arc::new(open(folder.path()));
    assert_eq!((count(&objects), listed(&objects)), (3, found.to_vec()), "a restart forgot it");
    objects.destroy(Ino(1)).unwrap();
    objects.resize(Ino(2), 0).unwrap();
    objects.write(Ino(2), 0, &[8; 10]).unwrap();
    seal(&objects);
    assert_eq!(listed(&objects), found[2..]);
    drop(objects);

    let objects = Arc::new(open(folder.path()));
    assert_eq!((count(&objects), listed(&objects)), (1, found[2..].to_vec()));
    flip(&objects, Ino(3), 50_000);
    assert_eq!((scrubbed(&objects), count(&objects)), (vec![], 0));
    drop(objects);
    assert_eq!(count(&open(folder.path())), 0);
}

#[test]
fn a_read_that_fails_by_checksum_is_known_also_after_a_restart_and_the_object_is_not_handed_out() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    (1..=2).for_each(|ino| write(&objects, Ino(ino), 300_000));
    seal(&objects);
    flip(&objects, Ino(1), 299_999);
    whole(&objects, Ino(1)).unwrap_err();
    assert_eq!((count(&objects), listed(&objects)), (1, vec![(Ino(1), 299_008)]));
    drop(objects);

    let objects = open(folder.path());
    assert_eq!(count(&objects), 1, "a restart forgot it");
    assert!(objects.keeper().known.is_remembered(Ino(1)) && objects.keeper().check_faults(Ino(1)).is_ok());
    whole(&objects, Ino(1)).unwrap_err();
    objects.keeper().check_faults(Ino(1)).unwrap_err();
    assert_eq!(whole(&objects, Ino(2)).unwrap().len(), 300_000);
    assert_eq!(count(&objects), 1);
}

#[test]
fn a_note_of_what_is_damaged_that_is_damaged_itself_holds_nothing_up() {
    let folder = tempfile::tempdir().unwrap();
    let objects = Arc::new(open(folder.path()));
    objects.write(Ino(1), 0, &[7; 100_000]).unwrap();
    seal(&objects);
    flip(&objects, Ino(1), 50_000);
    whole(&objects, Ino(1)).unwrap_err();
    drop(objects);
    fs::write(folder.path().join("damaged-seals"), "no note").unwrap();
    let objects = Arc::new(open(folder.path()));
    assert_eq!((count(&objects), scrubbed(&objects)), (0, vec![(Ino(1), 49_152)]));
}
