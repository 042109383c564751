//! Logs of seals that are cut off or damaged.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::Ino;

use super::{INO, flip, open, scrubbed, seal, whole};
use crate::integrity::log::{Place, SealLog};
use crate::objects::Objects;

#[test]
fn a_log_of_seals_that_is_cut_or_damaged_anywhere_raises_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    let log = folder.path().join("seals");
    for ino in 1..=20 {
        objects.write(Ino(ino), 0, &vec![ino as u8; 5000]).unwrap();
    }
    seal(&objects);
    for ino in [3, 9, 4] {
        objects.write(Ino(ino), 100, &[200; 50]).unwrap();
    }
    let lifted = fs::metadata(&log).unwrap().len();
    seal(&objects);
    objects.write(Ino(15), 4096, &[201; 10]).unwrap();
    let expected: Vec<Vec<u8>> = (1..=20).map(|ino| whole(&objects, Ino(ino)).unwrap()).collect();
    let good = fs::read(&log).unwrap();
    drop(objects);
    let assert_fine = |what: &str| {
        let objects = open(folder.path());
        for (ino, expected) in (1..).zip(&expected) {
            let found = whole(&objects, Ino(ino)).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(found == *expected, "{what}");
        }
    };
    assert_fine("untouched");
    // What was not synced may be cut off anywhere: all that follows the last lift.
    for end in (lifted as usize..good.len() - 33).step_by(5) {
        fs::write(&log, &good[..end]).unwrap();
        let objects = open(folder.path());
        for ino in (1..=20).filter(|ino| *ino != 15) {
            assert!(whole(&objects, Ino(ino)).unwrap() == expected[ino as usize - 1], "cut at {end}");
        }
    }
    for at in (12..good.len()).step_by(11) {
        let mut bad = good.clone();
        bad[at] ^= 32;
        fs::write(&log, &bad).unwrap();
        assert_fine(&format!("byte {at} of {}", good.len()));
    }
}

/// Seals five objects, spoils what is kept of that, and opens them again.
fn spoiled(folder: &Path, spoil: impl FnOnce(&Path)) -> Objects {
    let objects = open(folder);
    for ino in 1..=5 {
        objects.write(Ino(ino), 0, &vec![ino as u8; 5000]).unwrap();
    }
    seal(&objects);
    drop(objects);
    spoil(&folder.join("seals"));
    open(folder)
}

fn cut(path: &Path, keep: impl FnOnce(u64) -> u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(keep(file.metadata().unwrap().len())).unwrap();
}

fn flip_byte(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 32;
    fs::write(path, bytes).unwrap();
}

/// What is done to a log, in words and in deed.
type Spoil = (&'static str, fn(&Path));

/// What loses seals.
const LOSSES: [Spoil; 9] = [
    ("removed", |log| fs::remove_file(log).unwrap()),
    ("emptied", |log| cut(log, |_| 0)),
    ("cut in half", |log| cut(log, |length| length / 2)),
    ("cut by 3 bytes", |log| cut(log, |length| length - 3)),
    ("flipped in the middle", |log| flip_byte(log, 300)),
    ("flipped in its head", |log| flip_byte(log, 20)),
    ("without its mark", |log| fs::remove_file(log.with_extension("mark")).unwrap()),
    ("flipped in its mark", |log| flip_byte(&log.with_extension("mark"), 17)),
    ("removed with its mark", |log| {
        fs::remove_file(log).unwrap();
        fs::remove_file(log.with_extension("mark")).unwrap();
    }),
];

#[test]
fn a_log_of_seals_that_lacks_what_was_synced_is_told_until_somebody_accepts_it() {
    for (what, spoil) in LOSSES {
        let folder = tempfile::tempdir().unwrap();
        let unverified = |objects: &Objects| objects.keeper().unverified.all();
        let objects = spoiled(folder.path(), spoil);
        assert_eq!(unverified(&objects), [1, 2, 3, 4, 5].map(Ino), "{what}");
        // It is sealed anew, so that later damage is seen, and nobody says that it is good.
        seal(&objects);
        drop(objects);
        let objects = open(folder.path());
        assert_eq!(unverified(&objects), [1, 2, 3, 4, 5].map(Ino), "{what}");
        assert_eq!(whole(&objects, Ino(5)).unwrap(), vec![5; 5000]);
        flip(&objects, Ino(5), 100);
        assert!(whole(&objects, Ino(5)).is_err(), "{what}");
        flip(&objects, Ino(5), 100);
        // Anew as a whole, or away.
        objects.write(Ino(1), 0, &vec![9; 5000]).unwrap();
        objects.destroy(Ino(2)).unwrap();
        objects.resize(Ino(3), 0).unwrap();
        objects.write(Ino(4), 0, &[9; 10]).unwrap();
        seal(&objects);
        drop(objects);
        let objects = open(folder.path());
        assert_eq!(unverified(&objects), [4, 5].map(Ino), "{what}");
        assert_eq!(objects.keeper().unverified.accept().unwrap(), 2);
        drop(objects);
        let objects = open(folder.path());
        assert!(objects.keeper().unverified.why().is_none(), "{what}");
    }
}

#[test]
fn an_object_that_is_removed_after_its_seal_was_lost_reads_as_an_error_and_is_named() {
    for (what, spoil) in LOSSES {
        let folder = tempfile::tempdir().unwrap();
        drop(spoiled(folder.path(), spoil));
        for ino in [1, 2, 3] {
            fs::remove_file(folder.path().join(format!("objects/{ino:02x}/{ino:016x}"))).unwrap();
        }
        let objects = Arc::new(open(folder.path()));
        for ino in [1, 2, 3] {
            assert!(whole(&objects, Ino(ino)).is_err(), "{what}: {ino} reads as empty");
            assert!(objects.next_data(Ino(ino), 0).is_err(), "{what}");
            // Nobody reads the end of a part that is gone for the end of its file.
            assert_eq!(objects.measure(Ino(ino)).unwrap().unwrap().size, 1);
            for refused in [objects.write(Ino(ino), 0, b"bytes").map(drop), objects.resize(Ino(ino), 9)] {
                assert!(refused.is_err(), "{what}: what is changed of {ino} is all of it");
            }
        }
        assert_eq!(
            objects.page(Ino(0)).unwrap(),
            [(Ino(1), 1), (Ino(2), 1), (Ino(3), 1), (Ino(4), 5000), (Ino(5), 5000)]
        );
        // Away, or anew.
        objects.destroy(Ino(2)).unwrap();
        objects.resize(Ino(3), 0).unwrap();
        objects.write(Ino(3), 0, b"anew").unwrap();
        let named: Vec<Ino> = scrubbed(&objects).damaged.iter().map(|damage| damage.ino).collect();
        assert_eq!(named, [1].map(Ino), "{what}");
        drop(objects);
        let objects = Arc::new(open(folder.path()));
        assert!(whole(&objects, Ino(1)).is_err(), "{what}: 1 reads as empty after a restart");
        assert_eq!(
            (whole(&objects, Ino(2)).unwrap(), whole(&objects, Ino(3)).unwrap()),
            (vec![], b"anew".to_vec())
        );
        let damaged = scrubbed(&objects).damaged;
        assert_eq!(damaged.len(), 1, "{what}: {damaged:?}");
        assert!(damaged[0].what.contains("nobody knows how long it was"), "{}", damaged[0].what);
    }
}

#[test]
fn what_a_crash_leaves_of_a_log_of_seals_is_no_loss() {
    let spoils: [Spoil; 3] = [
        ("nothing", |_| {}),
        ("torn", |log| {
            let bytes = fs::read(log).unwrap();
            fs::write(log, [&bytes, &bytes[100..150]].concat()).unwrap();
        }),
        // It is not synced each time: a power loss may bring an old one back.
        ("old mark", |log| {
            let body = [b"FRBYSEAL".as_slice(), &1_u64.to_le_bytes(), &100_u64.to_le_bytes()].concat();
            let crc = crc32c::crc32c(&body).to_le_bytes();
            fs::write(log.with_extension("mark"), [body.as_slice(), &crc].concat()).unwrap();
        }),
    ];
    for (what, spoil) in spoils {
        let folder = tempfile::tempdir().unwrap();
        let objects = spoiled(folder.path(), spoil);
        assert!(objects.keeper().unverified.why().is_none(), "{what}");
        flip(&objects, Ino(3), 100);
        assert!(whole(&objects, Ino(3)).is_err(), "{what}: its seal counts");
    }
    let folder = tempfile::tempdir().unwrap();
    open(folder.path());
    fs::remove_file(folder.path().join("seals")).unwrap();
    fs::remove_file(folder.path().join("seals.mark")).unwrap();
    assert!(open(folder.path()).keeper().unverified.why().is_none(), "nothing was ever sealed");
}

#[test]
fn a_log_of_seals_at_the_place_of_another_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = |owner: &str| Place { path: folder.path().join("seals"), owner: owner.into() };
    let open = |owner: &str| SealLog::open(place(owner), |_| Ok(())).map(drop);
    open("namespace 0 on fragment 0").unwrap();
    open("namespace 0 on fragment 0").unwrap();
    let refused = open("namespace 0 on fragment 1").unwrap_err().to_string();
    assert!(refused.contains("of namespace 0 on fragment 0, not of namespace 0 on fragment 1"), "{refused}");
}

#[test]
fn a_log_of_the_first_version_goes_on_and_says_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("seals");
    fs::write(&path, b"FRBYSUMS\x01\0\0\0").unwrap();
    let objects = open(folder.path());
    assert!(objects.keeper().unverified.why().is_none());
    objects.write(Ino(1), 0, b"bytes").unwrap();
    seal(&objects);
    drop(objects);
    fs::remove_file(&path).unwrap();
    assert!(open(folder.path()).keeper().unverified.why().is_some());
}

#[test]
fn a_log_of_seals_that_cannot_be_written_any_more_is_replaced_and_files_at_rest_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    for ino in 1..=4 {
        objects.write(Ino(ino), 0, &vec![ino as u8; 10_000]).unwrap();
    }
    seal(&objects);
    objects.keeper().log.break_file();
    objects.write(Ino(1), 0, b"changed").unwrap();
    objects.keeper().log.break_file();
    objects.destroy(Ino(2)).unwrap();
    assert_eq!(objects.keeper().log.trouble(), None);
    flip(&objects, Ino(3), 5000);
    for objects in [objects, open(folder.path())] {
        assert_eq!(&whole(&objects, Ino(1)).unwrap()[..7], b"changed");
        assert!(whole(&objects, Ino(2)).unwrap().is_empty(), "it was removed");
        assert!(whole(&objects, Ino(3)).is_err(), "the new log lacks the sums of the old one");
        assert_eq!(whole(&objects, Ino(4)).unwrap(), vec![4; 10_000]);
    }
}

#[test]
fn what_cannot_be_noted_as_removed_is_not_removed_and_status_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    objects.write(INO, 0, &[1; 10_000]).unwrap();
    seal(&objects);
    objects.keeper().log.break_file();
    // No new log can be made either.
    let in_the_way = folder.path().join("seals.rewritten");
    fs::create_dir(&in_the_way).unwrap();
    assert!(objects.write(INO, 0, &[2]).is_err() && objects.destroy(INO).is_err());
    let why = objects.keeper().log.trouble().expect("it is told");
    assert!(why.contains(&*folder.path().join("seals").to_string_lossy()), "{why}");
    assert_eq!(whole(&objects, INO).unwrap(), vec![1; 10_000]);
    fs::remove_dir(&in_the_way).unwrap();
    // It goes on by itself.
    while objects.destroy(INO).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(objects.keeper().log.trouble(), None);
    assert!(whole(&open(folder.path()), INO).unwrap().is_empty(), "it was removed");
}

#[test]
fn what_is_gone_stays_an_error_where_nothing_can_be_made_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let objects = spoiled(folder.path(), |_: &Path| {});
    let below = folder.path().join("objects/01");
    fs::remove_dir_all(&below).unwrap();
    drop(objects);
    let objects = Arc::new(open(folder.path()));
    // The object's folder can be neither found nor made: there is no object, and there will be none.
    std::os::unix::fs::symlink("nowhere", &below).unwrap();
    objects.write(Ino(1), 0, &[9; 6000]).unwrap_err();
    seal(&objects);
    fs::remove_file(&below).unwrap();
    drop(objects);
    let objects = Arc::new(open(folder.path()));
    assert!(whole(&objects, Ino(1)).is_err(), "it reads as empty");
    objects.write(Ino(1), 0, &[9; 6000]).unwrap();
    seal(&objects);
    drop(objects);
    let objects = Arc::new(open(folder.path()));
    assert_eq!(whole(&objects, Ino(1)).unwrap(), vec![9; 6000], "it was written anew");
    assert_eq!(scrubbed(&objects).damaged, []);
}
