//! Bits of the head of a database.

use std::path::Path;

use super::super::{Database, MIGRATIONS, StateError};
use super::*;

/// Where SQLite keeps the number, four bytes with the highest first.
const HEAD: usize = 60;

/// Flips each bit of the number in the head, and shows that the database is called damaged and kept.
fn each_bit_is_damage(path: &Path) {
    let whole = std::fs::read(path).unwrap();
    for bit in 0..32 {
        let mut damaged = whole.clone();
        damaged[HEAD + bit / 8] ^= 1 << (bit % 8);
        std::fs::write(path, &damaged).unwrap();
        let refused = Database::open(path).err().expect("a bit is wrong");
        assert!(matches!(refused, StateError::Damaged { .. }), "bit {bit}: {refused}");
        assert!(std::fs::read(path).unwrap() == damaged, "bit {bit}: it is kept as it was");
    }
    std::fs::write(path, &whole).unwrap();
    Database::open(path).unwrap();
}

#[test]
fn a_bit_that_flips_in_the_number_of_the_schema_is_damage_and_no_newer_forebay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    drop(Database::open(&path).unwrap());
    each_bit_is_damage(&path);
}

#[test]
fn a_bit_that_flips_in_the_number_of_an_older_schema_is_damage_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("control.db");
    let old = Connection::open(&path).unwrap();
    MIGRATIONS[..19].iter().for_each(|step| old.execute_batch(step).unwrap());
    old.pragma_update(None, "user_version", 19).unwrap();
    drop(old);
    each_bit_is_damage(&path);
}
