//! Logs of seals that are cut off or damaged.

use std::fs;

use super::{open, seal, whole};

#[test]
fn a_log_of_seals_that_is_cut_or_damaged_anywhere_raises_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let log = folder.path().join("seals");
    for ino in 1..=20 {
        objects.write(ino, 0, &vec![ino as u8; 5000]).unwrap();
    }
    seal(&objects);
    for ino in [3, 9, 4] {
        objects.write(ino, 100, &[200; 50]).unwrap();
    }
    let lifted = fs::metadata(&log).unwrap().len();
    seal(&objects);
    objects.write(15, 4096, &[201; 10]).unwrap();
    let expected: Vec<Vec<u8>> = (1..=20).map(|ino| whole(&objects, ino).unwrap()).collect();
    let good = fs::read(&log).unwrap();
    drop(objects);
    let assert_fine = |what: &str| {
        let objects = open(folder.path());
        for (ino, expected) in (1..).zip(&expected) {
            assert!(whole(&objects, ino).unwrap_or_else(|e| panic!("{what}: {e}")) == *expected, "{what}");
        }
    };
    assert_fine("untouched");
    // What was not synced may be cut off anywhere: all that follows the last lift.
    for end in (lifted as usize..good.len() - 33).step_by(5) {
        fs::write(&log, &good[..end]).unwrap();
        let objects = open(folder.path());
        for ino in (1..=20).filter(|ino| *ino != 15) {
            assert!(whole(&objects, ino).unwrap() == expected[ino as usize - 1], "cut at {end}");
        }
    }
    for at in (12..good.len()).step_by(11) {
        let mut bad = good.clone();
        bad[at] ^= 32;
        fs::write(&log, &bad).unwrap();
        assert_fine(&format!("byte {at} of {}", good.len()));
    }
}
