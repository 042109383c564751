//! Notes of objects in doubt, on a disk.

use super::*;

#[test]
fn what_could_not_be_noted_is_noted_when_it_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let (sums, seals) = (dir.path().join("sums"), dir.path().join("sums/0.log"));
    std::fs::create_dir(&sums).unwrap();
    let open = || Unverified::open(&seals, || Ok(Vec::new())).unwrap();
    let unverified = open();
    // Nothing can be written there.
    std::fs::remove_dir(&sums).unwrap();
    unverified.begin_taken(Ino(7), "a test").unwrap_err();
    unverified.begin("a test".into(), vec![Ino(8)]).unwrap_err();
    assert_eq!(unverified.all(), [], "it is not noted");
    std::fs::create_dir(&sums).unwrap();
    unverified.begin_taken(Ino(7), "a test").unwrap();
    unverified.begin("a test".into(), vec![Ino(8)]).unwrap();
    assert_eq!(open().all(), [Ino(7), Ino(8)]);
    std::fs::remove_dir_all(&sums).unwrap();
    unverified.forget(Ino(7));
    unverified.save(|_| true).unwrap_err();
    std::fs::create_dir(&sums).unwrap();
    unverified.save(|_| true).unwrap();
    assert_eq!(open().all(), [Ino(8)], "what could not be forgotten is forgotten when it is tried again");
}

#[test]
fn what_is_being_taken_stays_so_until_it_is_there_and_nobody_accepts_it_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let seals = dir.path().join("0.log");
    let open = || Unverified::open(&seals, || Ok(Vec::new())).unwrap();
    let unverified = open();
    unverified.begin_taken(Ino(7), "a test").unwrap();
    unverified.begin_taken(Ino(8), "a test").unwrap();
    unverified.begin("a test".into(), vec![Ino(9)]).unwrap();
    assert_eq!(unverified.accept().unwrap(), 1);
    for unverified in [&unverified, &open()] {
        assert_eq!(unverified.all(), [Ino(7), Ino(8)]);
        assert!([7, 8].map(Ino).iter().all(|ino| unverified.is_taken(*ino) && unverified.is_in_mirror(*ino)));
    }
    unverified.end_taken(Ino(8), true).unwrap();
    unverified.lose_mirror().unwrap();
    for unverified in [&unverified, &open()] {
        assert!(!unverified.has(Ino(8)), "it is there");
        assert!(unverified.is_taken(Ino(7)) && !unverified.is_in_mirror(Ino(7)));
    }
    // Removed, and perhaps not durably.
    unverified.forget(Ino(7));
    assert!(!unverified.is_taken(Ino(7)) && open().is_taken(Ino(7)));
    unverified.save(|_| true).unwrap();
    assert_eq!((unverified.why(), open().why()), (None, None));
}

#[test]
fn a_note_of_before_anything_was_taken_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let body = postcard::to_stdvec(&("why", BTreeSet::from([Ino(7)]))).unwrap();
    let bytes = [&crc32c::crc32c(&body).to_le_bytes(), body.as_slice()].concat();
    std::fs::write(dir.path().join("unverified-0"), bytes).unwrap();
    let unverified = Unverified::open(&dir.path().join("0.log"), || Ok(Vec::new())).unwrap();
    assert!(unverified.has(Ino(7)) && !unverified.is_taken(Ino(7)));
}
