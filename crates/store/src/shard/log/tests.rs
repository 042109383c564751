//! What a log keeps when its file is cut off or damaged at any place.

use model::Ino;
use proptest::prelude::*;
use wire::data::{FileKind, ROOT, Time};

use super::super::record::{AttrChange, InodeRecord, Kind, Record};
use super::format::{BODY_BYTES_MAX, PAGE_BYTES};
use super::*;

mod newer;

/// How long a new log without a snapshot is.
const BEGUN_BYTES: usize = 42;

fn entry(n: u64) -> Entry {
    let time = Time { seconds: 1_700_000_000, nanos: u32::try_from(n).unwrap() };
    let record = match n % 3 {
        0 => Record::Make {
            parent: ROOT,
            name: format!("file-{n}").into_bytes(),
            ino: Ino(n + 2),
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
                parent: Ino(0),
                next_cookie: 1,
                xattrs: Vec::new(),
            },
        },
        1 => Record::SetXattr { ino: Ino(2), name: b"user.a".to_vec(), value: vec![7; 50], time },
        _ => Record::SetAttr {
            ino: Ino(2),
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
    std::fs::remove_file(path).ok();
    let mut log = Log::create(at(path), std::iter::empty()).unwrap();
    (0..count)
        .map(|n| {
            log.append(&entry(n)).unwrap();
            log.len()
        })
        .collect()
}

fn at(path: &Path) -> Arc<dyn Folder> {
    folder(path.parent().unwrap()).unwrap()
}

fn read(path: &Path) -> Result<Vec<Entry>, LogError> {
    let mut entries = Vec::new();
    Log::open(at(path), |entry| entries.push(entry)).map(|_| entries)
}

#[test]
fn a_log_that_is_cut_off_anywhere_keeps_every_whole_entry_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let ends = written(&path, 6);
    let whole = std::fs::read(&path).unwrap();
    for cut in BEGUN_BYTES..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let kept = ends.iter().filter(|&&end| end <= cut as u64).count();
        let mut entries = Vec::new();
        let mut log = Log::open(at(&path), |entry| entries.push(entry)).unwrap();
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
    for at in BEGUN_BYTES..usize::try_from(ends[4]).unwrap() {
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
    let mut log = Log::open(at(&path), |_| {}).unwrap();
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
        bytes.truncate(BEGUN_BYTES + cut.index(len));
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
    for foreign in [b"FRBYMETB\x03\x00\x00\x00".as_slice(), b"", b"FRBYMETA\x02\x00\x00\x00"] {
        std::fs::write(&path, foreign).unwrap();
        assert!(matches!(read(&path), Err(LogError::Foreign { .. })));
    }
    written(&path, 1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[13] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(read(&path), Err(LogError::Foreign { .. })), "a flipped bit in the first number");
}

#[test]
fn an_entry_that_is_too_long_is_refused_and_the_next_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 3);
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    let value = vec![7; BODY_BYTES_MAX + 1];
    let huge = Record::SetXattr { ino: Ino(2), name: b"user.a".to_vec(), value, time: Time::default() };
    assert!(log.append(&Entry { origin: None, record: huge }).is_err());
    log.append(&entry(3)).unwrap();
    assert_eq!(read(&path).unwrap().len(), 4);
}

fn sync(log: &mut Log) {
    let sync = log.to_sync().unwrap().expect("something is new");
    log.finish(&sync, sync.run()).unwrap();
    log.confirm(sync.next());
}

#[test]
fn a_log_that_is_cut_off_before_what_was_synced_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let ends = written(&path, 6);
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    sync(&mut log);
    log.append(&entry(6)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for cut in BEGUN_BYTES..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let read = read(&path);
        if (cut as u64) < ends[5] {
            assert!(matches!(read, Err(LogError::Cut { synced: 7, .. })), "cut at {cut}: {read:?}");
            assert_eq!(std::fs::metadata(&path).unwrap().len(), cut as u64, "it stays as it is");
        } else {
            assert_eq!(read.unwrap().len(), 6);
        }
    }
}

#[test]
fn a_log_of_the_first_version_is_read_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    let mut bytes = b"FRBYMETA\x01\x00\x00\x00".to_vec();
    (0..3).for_each(|n| format::encode(&mut bytes, &entry(n), n).unwrap());
    std::fs::write(&path, &bytes).unwrap();
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    log.append(&entry(3)).unwrap();
    assert_eq!(read(&path).unwrap(), (0..4).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_sync_counts_only_for_the_log_that_it_was_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 300);
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    let old = log.to_sync().unwrap().unwrap();
    let (mut draft, _) = log.begin_replacing().unwrap();
    draft.snapshot((0..3).map(entry)).unwrap();
    draft.sync().unwrap();
    log.replace_by(draft, log.len()).unwrap();
    log.append(&entry(3)).unwrap();
    assert_eq!(log.finish(&old, old.run()).unwrap(), Synced::AnotherLog);
    assert!(log.to_sync().unwrap().is_some(), "what came after is not synced");
    assert_eq!(read(&path).unwrap(), (0..4).map(entry).collect::<Vec<_>>());
}

#[test]
fn a_log_that_took_another_s_place_and_was_synced_is_known_to_be_to_its_last_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 300);
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    let (mut draft, _) = log.begin_replacing().unwrap();
    draft.snapshot((0..3).map(entry)).unwrap();
    draft.sync().unwrap();
    log.replace_by(draft, log.len()).unwrap();
    let sync = log.to_sync().unwrap().expect("its name is not synced");
    log.finish(&sync, sync.run()).unwrap();
    assert!(log.to_sync().unwrap().is_none());
    assert_eq!(log.synced_next(), sync.next(), "what a copy must have before this is confirmed");
}

#[test]
fn a_log_whose_sync_failed_confirms_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("meta.log");
    written(&path, 3);
    let mut log = Log::open(at(&path), |_| {}).unwrap();
    let (first, second) = (log.to_sync().unwrap().unwrap(), log.to_sync().unwrap().unwrap());
    assert!(log.finish(&first, Err(Errno::IO.into())).is_err());
    assert!(log.finish(&second, Ok(())).is_err(), "the kernel told the other of it");
    assert!(log.to_sync().is_err());
    assert!(log.append(&entry(3)).is_err());
}
