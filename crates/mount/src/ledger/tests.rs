//! What a successor finds.

use super::*;

fn backing(id: u32) -> Backing {
    Backing { id, object: (u64::from(id) * 10, u64::from(id) * 100) }
}

fn identity() -> Identity {
    Identity {
        session: SessionId([7; 16]),
        negotiated: Negotiated { minor: 45, capabilities: 1 << 39, max_write: 1 << 20 },
    }
}

#[test]
fn a_successor_finds_what_was_open_and_who_we_were() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let ledger = Ledger::create(&path, identity()).unwrap();
    ledger.opened(2, Ino(10), true, backing(5));
    ledger.opened(4, Ino(10), false, backing(0));
    ledger.opened(6, Ino(11), false, backing(0));
    ledger.closed(8, Ino(11), false, false);
    drop(ledger);
    let (ledger, found) = Ledger::open(&path).unwrap();
    assert_eq!(found, identity());
    assert_eq!(ledger.held().opens, [(Ino(10), 1, 1)]);
    assert!(ledger.is_any_open());
    assert_eq!(ledger.backings(), [(Ino(10), backing(5), 1)]);
    assert!(ledger.done(8).is_some() && ledger.done(9).is_none());
}

#[test]
fn a_record_that_was_cut_off_does_not_count_and_does_not_shift_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let ledger = Ledger::create(&path, identity()).unwrap();
    ledger.opened(2, Ino(10), true, backing(0));
    ledger.opened(4, Ino(11), true, backing(0));
    let len = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(len - 1).unwrap();
    let (ledger, _) = Ledger::open(&path).unwrap();
    ledger.opened(4, Ino(12), false, backing(0));
    let (ledger, _) = Ledger::open(&path).unwrap();
    let mut opens = ledger.held().opens;
    opens.sort_unstable();
    assert_eq!(opens, [(Ino(10), 0, 1), (Ino(12), 1, 0)]);
}

#[test]
fn history_is_dropped_and_the_present_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    let ledger = Ledger::create(&path, identity()).unwrap();
    ledger.opened(1, Ino(9), true, backing(3));
    for n in 0..RECORDS_MIN as u64 {
        ledger.opened(10 + n, Ino(10), false, backing(0));
        ledger.closed(10 + n, Ino(10), false, false);
    }
    assert!(std::fs::metadata(&path).unwrap().len() < (RECORDS_MIN * size_of::<Record>()) as u64 * 9 / 8);
    let (ledger, _) = Ledger::open(&path).unwrap();
    assert_eq!(ledger.held().opens, [(Ino(9), 0, 1)]);
    assert_eq!(ledger.backings(), [(Ino(9), backing(3), 1)]);
}

#[test]
fn another_file_is_no_ledger() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ledger");
    std::fs::write(&path, [0; 200]).unwrap();
    assert_eq!(Ledger::open(&path).unwrap_err().kind(), io::ErrorKind::InvalidData);
    std::fs::write(&path, []).unwrap();
    assert!(Ledger::open(&path).is_err());
}
