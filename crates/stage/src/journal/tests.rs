//! What survives of a journal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use model::Ino;
use wire::control::ErrorCode;
use wire::data::Time;
use wire::node::Verify;

use super::*;

const INODE: Inode = Inode { device: 1, ino: Ino(2), changed: Time { seconds: 3, nanos: 4 } };

fn open(path: &Path, id: &str) -> Result<Journal, JournalError> {
    let mut start = StartRecord::of_entries(id);
    (start.source, start.destination) = ("/scratch/in".into(), "$DW_JOB_STRIPED".into());
    Journal::start(path, start, false)
}

fn done(size: u64) -> Finished {
    Finished {
        size,
        mtime: Time { seconds: 5, nanos: 6 },
        changed: Some(Time { seconds: 9, nanos: 8 }),
        crc32c: 7,
        attempts: 1,
        verified: Verify::Full,
        finished_ms: 8,
    }
}

#[test]
fn a_second_run_knows_what_the_first_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let odd = Path::new(OsStr::from_bytes(b"odd\xff\nname"));
    let first = open(&path, "1.0").unwrap();
    first.finish(Path::new("a"), done(1), INODE);
    first.finish(odd, done(2), INODE);
    first.make(Path::new("out"));
    drop(first);

    let second = open(&path, "1.0").unwrap();
    assert_eq!(second.run(), 2);
    assert_eq!(second.finished(Path::new("a")), Some(done(1)));
    assert_eq!(second.finished(odd), Some(done(2)));
    assert_eq!(second.finished(Path::new("b")), None);
    assert!(second.was_made(Path::new("out")));
}

#[test]
fn a_journal_that_a_newer_forebay_wrote_is_refused_by_name_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    drop(open(&path, "1.0").unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace("\"format\":1", "\"format\":2");
    std::fs::write(&path, &newer).unwrap();
    let refused = open(&path, "1.0").map(drop).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(refused.to_string().contains("journal") && why.contains("it has format 2"), "{refused}: {why}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    assert!(refused.stage_error().advice.starts_with("install the Forebay that wrote it"));
    let unlike = "{\"start\":{\"format\":2,\"what\":\"follows\"}}\n".to_owned() + &text;
    std::fs::write(&path, unlike).unwrap();
    let refused = open(&path, "1.0").map(drop).unwrap_err().stage_error();
    assert!(refused.message.contains("it has format 2"), "a start of whatever shape: {}", refused.message);
    std::fs::write(&path, text.replace("\"format\":1,", "")).unwrap();
    assert_eq!(open(&path, "1.0").unwrap().run(), 2, "one from before 0.1.0 goes on");
}

/// The bytes of a journal at `path` in which `a` and `b` are finished.
fn of_two_files(path: &Path) -> Vec<u8> {
    let first = open(path, "1.0").unwrap();
    first.finish(Path::new("a"), done(1), INODE);
    first.finish(Path::new("b"), done(2), INODE);
    drop(first);
    std::fs::read(path).unwrap()
}

#[test]
fn a_torn_last_line_is_cut_off_and_spoils_no_later_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let whole = of_two_files(&path);
    let last = whole.windows(6).rposition(|word| word == b"\"file\"").unwrap();
    std::fs::write(&path, &whole[..last + 9]).unwrap();

    let second = open(&path, "1.0").unwrap();
    assert_eq!(second.finished(Path::new("b")), None);
    second.finish(Path::new("c"), done(3), INODE);
    drop(second);

    let third = open(&path, "1.0").unwrap();
    assert_eq!(third.finished(Path::new("a")), Some(done(1)));
    assert_eq!(third.finished(Path::new("c")), Some(done(3)));
}

#[test]
fn a_damaged_line_is_refused_by_name_and_kept_and_what_a_power_loss_left_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let whole = of_two_files(&path);
    let second = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for garbage in [&b"garbage"[..], b"{\"fole\":", b"{}"] {
        let mut damaged = whole.clone();
        damaged.splice(second..second, [garbage, b"\n"].concat());
        std::fs::write(&path, &damaged).unwrap();
        let refused = open(&path, "1.0").map(drop).unwrap_err().stage_error();
        assert_eq!(refused.code, ErrorCode::StageJournal);
        let named = format!("{}: line 2 is damaged", path.display());
        assert!(refused.message.contains(&named), "{}", refused.message);
        assert!(refused.advice.contains("remove it; then retry the stage"), "{}", refused.advice);
        assert_eq!(std::fs::read(&path).unwrap(), damaged);
    }
    // A page that did not reach the disk, which later ones did.
    let mut lost = whole.clone();
    lost[second + 5..second + 20].fill(0);
    std::fs::write(&path, &lost).unwrap();
    let next = open(&path, "1.0").unwrap();
    assert_eq!(next.finished(Path::new("a")), None);
    assert_eq!(next.finished(Path::new("b")), Some(done(2)));
}

#[test]
fn the_journal_of_another_stage_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    open(&path, "1.0").unwrap().finish(Path::new("a"), done(1), INODE);

    let other = open(&path, "2.0").unwrap();
    assert_eq!(other.finished(Path::new("a")), None);
    assert_eq!(other.run(), 1);
}

#[test]
fn every_folder_that_had_a_path_while_parts_were_made_there_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = open(&path, "1.0").unwrap();
    first.hold(Path::new("/pfs/d"), || Ino(1));
    for ino in [2, 3, 2] {
        first.note_folder(Path::new("/pfs/d"), Ino(ino));
        first.hold(Path::new("/pfs/d"), || unreachable!("it is known"));
    }
    drop(first);
    let left = open(&path, "1.0").unwrap().folders_left();
    assert_eq!(left, [1, 2, 3].map(|ino| Noted::of(Path::new("/pfs/d"), Ino(ino))));
}

#[test]
fn a_folder_with_what_is_undecided_is_remembered_by_every_later_run_until_that_is_decided() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let open = || open(&path, "1.0").unwrap();
    let undecided = || vec![(PathBuf::from("/pfs/d"), Ino(7))];
    open().hold(Path::new("/pfs/d"), || Ino(7));
    let left = || open().folders_left();
    open().cleared(undecided());
    let kept = Noted { has_taken: true, ..Noted::of(Path::new("/pfs/d"), Ino(7)) };
    assert_eq!(left(), std::slice::from_ref(&kept));
    open().all_cleared(undecided());
    assert_eq!(left(), [kept]);
    open().all_cleared(vec![]);
    assert_eq!(left(), []);
}
