//! What a ledger remembers, and of whom.

use std::io::Write;

use super::*;
use crate::generation::Generation;

fn landed(ino: u64) -> Landed {
    let generation = Generation { ino, born: (1, 2), size: 3, mtime: (4, 5), ctime: (6, 7), linked: false };
    Landed { target: "/pfs/a".into(), generation, crc32c: Some(8), left_out: vec![] }
}

#[test]
fn a_ledger_remembers_and_cuts_off_what_a_crash_tore() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger.land(&[("a".into(), landed(1)), ("b".into(), landed(1)), ("c".into(), landed(2))]).unwrap();
    ledger.begin(Path::new("d"), landed(2)).unwrap();
    assert_eq!(ledger.other_paths(Path::new("c")), [PathBuf::from("d")]);
    ledger.gone(Path::new("c")).unwrap();
    drop(ledger);
    let mut file = File::options().append(true).open(folder.path().join("ledger")).unwrap();
    file.write_all(b"{\"gone\":\"a").unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    assert_eq!(ledger.len(), 2);
    assert_eq!((ledger.get(Path::new("d")), ledger.traces(Path::new("d"))), (None, vec![landed(2)]));
    assert_eq!(ledger.other_paths(Path::new("a")), [PathBuf::from("b")]);
    ledger.gone(Path::new("b")).unwrap();
    drop(ledger);
    let ledger = Ledger::open(folder.path()).unwrap();
    assert_eq!(ledger.get(Path::new("a")), Some(&landed(1)));
    assert_eq!(ledger.len(), 1);
}

#[test]
fn a_ledger_that_a_newer_forebay_wrote_is_refused_by_name_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let of = Of { from: "a".into(), to: "/pfs".into(), session: "7".into() };
    Ledger::open(folder.path()).unwrap().begin_anew(of.clone()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace("\"format\":1", "\"format\":2");
    std::fs::write(&path, &newer).unwrap();
    let refused = Ledger::open(folder.path()).map(drop).unwrap_err();
    assert!(format!("{refused:#}").contains("ledger: it has format 2"), "{refused:#}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    std::fs::write(&path, text.replace("\"format\":1,", "")).unwrap();
    assert_eq!(Ledger::open(folder.path()).unwrap().of(), Some(&of), "one from before 0.1.0 goes on");
}

#[test]
fn a_ledger_that_is_damaged_before_its_end_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let mut ledger = Ledger::open(folder.path()).unwrap();
    ledger.lose((12, (34, 56))).unwrap();
    ledger.land(&[("a".into(), landed(1))]).unwrap();
    drop(ledger);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(Ledger::open(folder.path()).unwrap().has_lost((12, (34, 56))));
    for (right, wrong) in [("\"lost\"", "\"lxst\""), ("\"ino\":12", "\"ino\":13"), ("[34,56]", "[34,57]")] {
        let damaged = text.replacen(right, wrong, 1);
        assert_ne!(damaged, text);
        std::fs::write(&path, &damaged).unwrap();
        let refused = format!("{:#}", Ledger::open(folder.path()).map(drop).unwrap_err());
        assert!(refused.contains("/ledger: a line of it is damaged"), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), damaged);
    }
    // What a power loss left of what was not synced.
    std::fs::write(&path, [text.as_bytes(), b"\0\0\0{\"gone\":\"a\"}\n"].concat()).unwrap();
    let mut ledger = Ledger::open(folder.path()).unwrap();
    assert_eq!((ledger.len(), std::fs::read_to_string(&path).unwrap()), (1, text.clone()));
    // It is of another drain now, and the flash is the same.
    ledger.begin_anew(Of { from: "a".into(), to: "/pfs".into(), session: "7".into() }).unwrap();
    ledger.land(&[("b".into(), landed(2))]).unwrap();
    let anew = Ledger::open(folder.path()).unwrap();
    assert!(anew.has_lost((12, (34, 56))) && anew.get(Path::new("b")).is_some() && anew.len() == 1);
    // Of a build that wrote no checksum.
    let (start, rest) = text.split_once(",\"crc32c\":").unwrap();
    std::fs::write(&path, format!("{start}{}", &rest[rest.find('}').unwrap()..])).unwrap();
    assert!(Ledger::open(folder.path()).unwrap().has_lost((12, (34, 56))));
}
