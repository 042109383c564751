//! Objects that the disk does not give at all.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use model::Ino;

use super::{open, seal, whole};
use crate::objects::Objects;

fn write(objects: &Objects, ino: Ino) {
    objects.write(ino, 0, &vec![7; 100_000]).unwrap();
}

/// From here on `open` fails for this object and for no other, whoever asks.
fn close(objects: &Objects, ino: Ino) {
    let path = objects.path(ino);
    fs::rename(&path, path.with_extension("away")).unwrap();
    symlink(&path, &path).unwrap();
}

/// How many objects a scrub looked at, and those that it could not open.
fn scrubbed(objects: &Arc<Objects>) -> (u64, Vec<Ino>) {
    let status = super::scrubbed(objects);
    assert_eq!(status.error, None);
    for found in &status.damaged {
        assert!(found.start == 0 && found.end > 0 && found.what.contains("cannot be opened"), "{found:?}");
    }
    let mut damaged: Vec<Ino> = status.damaged.iter().map(|found| found.ino).collect();
    damaged.sort_unstable();
    (status.objects, damaged)
}

#[test]
fn an_object_that_cannot_be_opened_is_named_and_the_others_are_summed_scrubbed_and_served() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    (1..=3).for_each(|ino| write(&objects, Ino(ino)));
    seal(&objects);
    (4..=6).for_each(|ino| write(&objects, Ino(ino)));
    drop(objects);
    let objects = open(folder.path());
    // One that is sealed, and one that is not yet.
    [2, 5].into_iter().for_each(|ino| close(&objects, Ino(ino)));
    drop(objects);

    let objects = Arc::new(open(folder.path()));
    assert!(objects.keeper().known.first(Ino(2)).is_some(), "a start says nothing of what it cannot open");
    seal(&objects);
    for ino in [1, 3, 4, 6] {
        assert!(objects.keeper().log.get(Ino(ino)).is_some(), "object {ino} waits for another");
        assert_eq!(whole(&objects, Ino(ino)).unwrap().len(), 100_000);
    }
    for ino in [2, 5] {
        let error = whole(&objects, Ino(ino)).unwrap_err().to_string();
        assert!(error.contains(&format!("inode {ino}: it cannot be opened: Too many levels")), "{error}");
    }
    assert_eq!(scrubbed(&objects), (6, vec![Ino(2), Ino(5)]));
    assert_eq!(objects.page(Ino(0)).unwrap().len(), 6, "what cannot be opened is no object that never was");

    // The disk gives them again.
    for ino in [2, 5] {
        let path = objects.path(Ino(ino));
        fs::rename(path.with_extension("away"), &path).unwrap();
    }
    seal(&objects);
    assert_eq!((scrubbed(&objects), objects.keeper().known.count()), ((6, vec![]), 0));
    assert_eq!(whole(&objects, Ino(5)).unwrap().len(), 100_000);
}
