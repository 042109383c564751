//! What survives of a journal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use model::phase::{Direction, StageKind};
use wire::node::StagePolicy;

use super::*;

fn task(id: &str) -> Task {
    Task {
        id: id.into(),
        direction: Direction::In,
        kind: StageKind::Directory,
        source: "/scratch/in".into(),
        destination: "$DW_JOB_STRIPED".into(),
        policy: StagePolicy::default(),
    }
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
    let first = Journal::open(&path, task("1.0")).unwrap();
    first.finish(Path::new("a"), done(1), None);
    first.finish(odd, done(2), None);
    first.make(Path::new("out"));
    drop(first);

    let second = Journal::open(&path, task("1.0")).unwrap();
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
    drop(Journal::open(&path, task("1.0")).unwrap());
    let text = std::fs::read_to_string(&path).unwrap();
    let newer = text.replace("\"format\":1", "\"format\":2");
    std::fs::write(&path, &newer).unwrap();
    let refused = Journal::open(&path, task("1.0")).map(drop).unwrap_err();
    let why = std::error::Error::source(&refused).unwrap().to_string();
    assert!(refused.to_string().contains("journal") && why.contains("it has format 2"), "{refused}: {why}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), newer);
    std::fs::write(&path, text.replace("\"format\":1,", "")).unwrap();
    assert_eq!(Journal::open(&path, task("1.0")).unwrap().run(), 2, "one from before 0.1.0 goes on");
}

#[test]
fn a_torn_last_line_is_cut_off_and_spoils_no_later_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let first = Journal::open(&path, task("1.0")).unwrap();
    first.finish(Path::new("a"), done(1), None);
    first.finish(Path::new("b"), done(2), None);
    drop(first);
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 9]).unwrap();

    let second = Journal::open(&path, task("1.0")).unwrap();
    assert_eq!(second.finished(Path::new("b")), None);
    second.finish(Path::new("c"), done(3), None);
    drop(second);

    let third = Journal::open(&path, task("1.0")).unwrap();
    assert_eq!(third.finished(Path::new("a")), Some(done(1)));
    assert_eq!(third.finished(Path::new("c")), Some(done(3)));
}

#[test]
fn the_journal_of_another_stage_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    Journal::open(&path, task("1.0")).unwrap().finish(Path::new("a"), done(1), None);

    let other = Journal::open(&path, task("2.0")).unwrap();
    assert_eq!(other.finished(Path::new("a")), None);
    assert_eq!(other.run(), 1);
}
