//! What a log keeps when its file is cut off or damaged at any place.

use proptest::prelude::*;
use wire::data::{FileKind, ROOT, Time};

use super::super::record::{AttrChange, InodeRecord, Kind, Record};
use super::*;

fn entry(n: u64) -> Entry {
    let time = Time { seconds: 1_700_000_000, nanos: u32::try_from(n).unwrap() };
    let record = match n % 3 {
        0 => Record::Make {
            parent: ROOT,
            name: format!("file-{n}").into_bytes(),
            ino: n + 2,
            inode: InodeRecord {
                kind: Kind::from(FileKind::Regular),
                mode: 0o644,
                nlink: 1,
                uid: 1,
                gid: 1,
                rdev: 0,
                size: 0,
                live: false,
                atime: time,
                mtime: time,
                ctime: time,
                target: Vec::new(),
                parent: 0,
                next_cookie: 1,
                xattrs: Vec::new(),
            },
        },
        1 => Record::SetXattr { ino: 2, name: b"user.a".to_vec(), value: vec![7; 50], time },
        _ => Record::SetAttr {
            ino: 2,
            change: AttrChange {
                mode: Some(0o600),
                uid: None,
                gid: None,
                size: None,
                atime: None,
                mtime: None,
                ctime: time,
            },
        },
    };
    Entry { origin: None, record }
}

/// A log of `count` entries, and where each ends.
fn written(path: &Path, count: u64) -> Vec<u64> {
    let mut log = Log::create(path, std::iter::empty()).unwrap();
    (0..count)
        .map(|n| {
            log.append(&entry(n)).unwrap();
            log.len()
        })
        .collect()
}

fn read(path: &Path) -> Result<Vec<Entry>, LogError> {
    let mut entries = Vec::new();
    Log::open(path, |entry| entries.push(entry)).map(|_| entries)
}

#[test]
fn a_log_that_is_cut_off_anywhere_keeps_every_whole_entry_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let ends = written(&path, 6);
    let whole = std::fs::read(&path).unwrap();
    for cut in FILE_HEAD_BYTES..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let kept = ends.iter().filter(|&&end| end <= cut as u64).count();
        let mut entries = Vec::new();
        let mut log = Log::open(&path, |entry| entries.push(entry)).unwrap();
        assert_eq!(entries, (0..kept as u64).map(entry).collect::<Vec<_>>(), "cut at {cut}");
        log.append(&entry(99)).unwrap();
        assert_eq!(read(&path).unwrap().len(), kept + 1);
    }
}

#[test]
fn damage_before_the_last_entry_is_reported_whatever_byte_it_hits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let ends = written(&path, 6);
    let whole = std::fs::read(&path).unwrap();
    for at in FILE_HEAD_BYTES..usize::try_from(ends[4]).unwrap() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        std::fs::write(&path, &damaged).unwrap();
        assert!(
            matches!(read(&path), Err(LogError::Damaged { .. })),
            "a flipped bit in byte {at} went unnoticed"
        );
    }
}

#[test]
fn pages_that_a_power_loss_kept_from_the_disk_are_no_damage_unless_they_were_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let ends = written(&path, 300);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2 * PAGE_BYTES..3 * PAGE_BYTES].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let kept = ends.iter().filter(|&&end| end <= 2 * PAGE_BYTES as u64).count();
    assert_eq!(read(&path).unwrap(), (0..kept as u64).map(entry).collect::<Vec<_>>());

    written(&path, 300);
    let mut log = Log::open(&path, |_| {}).unwrap();
    log.append(&Entry { origin: None, record: Record::Synced { length: log.len() } }).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[2 * PAGE_BYTES..3 * PAGE_BYTES].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(read(&path), Err(LogError::Damaged { .. })));
}

proptest! {
    #[test]
    fn a_log_that_is_damaged_in_many_places_is_refused_or_gives_what_was_before(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meta.log");
        written(&path, 12);
        let mut bytes = std::fs::read(&path).unwrap();
        let len = bytes.len();
        damage.iter().for_each(|(at, byte)| bytes[at.index(len)] = *byte);
        bytes.truncate(FILE_HEAD_BYTES + cut.index(len));
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(entries) = read(&path) {
            prop_assert_eq!(&entries, &(0..entries.len() as u64).map(entry).collect::<Vec<_>>());
        }
    }

    #[test]
    fn entries_that_make_no_sense_do_not_make_the_tree_panic(
        damage in prop::collection::vec((0u64..12, any::<prop::sample::Index>(), any::<u8>()), 1..30)
    ) {
        let mut tree = super::super::tree::Tree::empty();
        for (n, at, byte) in damage {
            let mut body = postcard::to_extend(&entry(n), Vec::new()).unwrap();
            let at = at.index(body.len());
            body[at] = byte;
            if let Ok(entry) = postcard::from_bytes::<Entry>(&body) {
                tree.apply(&entry.record);
            }
        }
        prop_assert!(tree.snapshot().count() > 0);
    }
}

#[test]
fn a_file_that_is_no_log_is_not_taken_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    std::fs::write(&path, b"FRBYMETA\x02\x00\x00\x00").unwrap();
    assert!(matches!(read(&path), Err(LogError::Foreign { .. })));
}

#[test]
fn an_entry_that_is_too_long_is_refused_and_the_next_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 3);
    let mut log = Log::open(&path, |_| {}).unwrap();
    let value = vec![7; BODY_BYTES_MAX + 1];
    let huge = Record::SetXattr { ino: 2, name: b"user.a".to_vec(), value, time: Time::default() };
    assert!(log.append(&Entry { origin: None, record: huge }).is_err());
    log.append(&entry(3)).unwrap();
    assert_eq!(read(&path).unwrap().len(), 4);
}
