//! What the log of seals looks like as bytes: one of any release says the same to every later one.

use super::*;

#[test]
fn seals_and_notes_have_the_bytes_that_they_always_had() {
    let folder = tempfile::tempdir().unwrap();
    let objects = open(folder.path());
    objects.write(Ino(300), 0, &[9; 4096]).unwrap();
    seal(&objects);
    let log = || fs::read(folder.path().join("seals")).unwrap();
    let has = |bytes: &[u8]| log().windows(bytes.len()).any(|window| window == bytes);
    let (ino, length) = ([0xac, 0x02], [0x80, 0x20]);
    assert!(has(&[&[1][..], &ino, &length].concat()), "a seal: {:x?}", log());
    let note = [&[2][..], &300_u64.to_le_bytes(), &300_u64.to_le_bytes()].concat();
    assert!(!has(&note));
    objects.write(Ino(300), 0, &[8; 1]).unwrap();
    assert!(has(&note), "its seal is lifted: {:x?}", log());
}
