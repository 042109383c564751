//! Requests that are asked again, or come late: what was open stays open, and a size that was measured before is of no
//! use.
//!
//! **Invariant:** every test asks as a client does whose connection broke before the answer.

use model::{Ino, SessionId};
use wire::data::message::{NO_EPOCH, Written};

use super::super::power::disk::{Disk, SimFolder, Trouble};
use super::*;

const OTHER: SessionId = SessionId([9; 16]);

fn by(session: SessionId, id: u64) -> Caller<'static> {
    Caller::new(session, id)
}

fn create(shard: &Shard, caller: Caller<'_>, name: &[u8]) -> Ino {
    let create = Request::Create { parent: ROOT, name: name.to_vec(), mode: 0o600, creator: ME };
    inode(shard.handle(caller, create)).unwrap()
}

fn open(shard: &Shard, caller: Caller<'_>, ino: Ino) -> Option<Ino> {
    inode(shard.handle(caller, Request::Open { ino, write: true }))
}

/// Closes a handle of a writer that left a hole; the epoch at which the file is to be measured.
fn close_with_hole(shard: &Shard, caller: Caller<'_>, ino: Ino) -> u64 {
    let written = Written { end: 0, mtime: now(), epoch: NO_EPOCH, times: 0 };
    let handles = vec![ClosedHandle { ino, write: true, written: Some(written) }];
    match shard.handle(caller, Request::Close { handles }) {
        Reply::Measure(files) if files.len() == 1 => files[0].1,
        other => panic!("{other:?}"),
    }
}

fn settle(shard: &Shard, caller: Caller<'_>, (ino, size, epoch): (Ino, u64, u64)) {
    assert_eq!(shard.handle(caller, Request::Settle { ino, size, mtime: now(), epoch }), Reply::Done);
}

/// Opens the shard of two fragments again; nobody is waited for.
fn opened_again(folder: &Path) -> Arc<Shard> {
    let shard = home_of_two(folder);
    for session in [SESSION, OTHER] {
        shard.handle(by(session, 0), Request::ReclaimLocks { locks: Vec::new() });
    }
    shard
}

#[test]
fn an_open_that_is_asked_again_of_a_shard_that_lives_keeps_the_file() {
    let home = Home::new();
    let ino = create(&home.shard, by(OTHER, 1), b"f");
    assert_eq!(open(&home.shard, by(SESSION, 50), ino), Some(ino));
    // The connection broke before the answer: the next life says what is open, without it, and asks again.
    assert_eq!(home.shard.handle(by(SESSION, 0), Request::Reclaim { opens: Vec::new() }), Reply::Done);
    assert_eq!(open(&home.shard, by(SESSION, 50), ino), Some(ino));
    home.shard.handle(by(OTHER, 2), Request::Unlink { parent: ROOT, name: b"f".to_vec() });
    let handles = vec![ClosedHandle { ino, write: true, written: None }];
    home.shard.handle(by(OTHER, 3), Request::Close { handles: handles.clone() });
    home.shard.handle(by(OTHER, 4), Request::AwaitDestroyed);
    assert!(inode(home.shard.handle(by(SESSION, 51), Request::GetAttr { ino })).is_some(), "it is open");
    home.shard.handle(by(SESSION, 52), Request::Close { handles });
    home.shard.handle(by(SESSION, 53), Request::AwaitDestroyed);
    let gone = home.shard.handle(by(SESSION, 54), Request::GetAttr { ino });
    assert_eq!(gone, FAILED(Errno::STALE), "it was opened once");
}

#[test]
fn a_create_that_is_asked_again_leaves_no_size_that_a_writer_does_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let shard = home_of_two(folder.path());
    let ino = create(&shard, by(SESSION, 50), b"f");
    assert_eq!(shard.handle(by(SESSION, 0), Request::Reclaim { opens: Vec::new() }), Reply::Done);
    // Meanwhile somebody else writes it and closes.
    open(&shard, by(OTHER, 1), ino);
    let epoch = close_with_hole(&shard, by(OTHER, 2), ino);
    settle(&shard, by(OTHER, 3), (ino, 100, epoch));
    assert!(shard.lock().tree.is_settled(ino));
    assert_eq!(create(&shard, by(SESSION, 50), b"f"), ino);
    assert!(!shard.lock().tree.is_settled(ino), "it is open for writing");
}

#[test]
fn a_size_that_was_measured_before_the_file_was_opened_again_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let shard = home_of_two(folder.path());
    let ino = create(&shard, by(SESSION, 1), b"f");
    let early = close_with_hole(&shard, by(SESSION, 2), ino);
    // Opened, written with a hole, and closed, before the size of the first writer arrives.
    open(&shard, by(OTHER, 1), ino);
    let later = close_with_hole(&shard, by(OTHER, 2), ino);
    settle(&shard, by(SESSION, 3), (ino, 100, early));
    assert!(!shard.lock().tree.is_settled(ino), "what was written since would be cut off");
    settle(&shard, by(OTHER, 3), (ino, 200, later));
    assert!(shard.lock().tree.is_settled(ino));
    // Nor is the last one taken, asked again, over a restart that writes the log anew.
    shard.replace_log().unwrap();
    let again = opened_again(folder.path());
    open(&again, by(SESSION, 4), ino);
    let last = close_with_hole(&again, by(SESSION, 5), ino);
    assert!(last != early && last != later, "{early}, {later}, and then {last}");
    settle(&again, by(OTHER, 3), (ino, 200, later));
    assert!(!again.lock().tree.is_settled(ino));
    settle(&again, by(SESSION, 6), (ino, 300, last));
    assert!(again.lock().tree.is_settled(ino));
}

#[test]
fn a_size_that_was_measured_before_a_session_came_back_is_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let shard = home_of_two(folder.path());
    let ino = create(&shard, by(OTHER, 1), b"f");
    let early = close_with_hole(&shard, by(OTHER, 2), ino);
    // One that was away for the grace period, and has ended here.
    let opens = vec![(ino, 0, 1)];
    assert_eq!(shard.handle(by(SESSION, 0), Request::Reclaim { opens }), Reply::Done);
    close_with_hole(&shard, by(SESSION, 1), ino);
    settle(&shard, by(OTHER, 3), (ino, 100, early));
    assert!(!shard.lock().tree.is_settled(ino));
}

#[test]
fn a_close_that_the_log_does_not_take_takes_no_other_handle_along() {
    let fragment = tempfile::tempdir().unwrap();
    let Parts { namespace, objects, peers } = Parts::new(fragment.path(), 2);
    let folder = SimFolder::over(Disk::new(1, None));
    let home = Arc::new(folder.clone());
    let shard = Shard::over(home, &namespace, Expect::New, objects, peers).unwrap();
    shard.close();
    let [f, g] = [(1, b"f"), (2, b"g")].map(|(id, name)| create(&shard, by(SESSION, id), name));
    open(&shard, by(SESSION, 3), f);
    let at = folder.disk().operations + 1;
    folder.disk().trouble = Some((at, Trouble::Fails(Errno::NOSPC)));
    let handles: Vec<_> = [f, g].map(|ino| ClosedHandle { ino, write: true, written: None }).into();
    let close = Request::Close { handles };
    // As a client does: handles whose close was refused are closed by another request.
    if let Reply::Failed(_) = shard.handle(by(SESSION, 4), close.clone()) {
        shard.handle(by(SESSION, 5), close);
    }
    assert!(folder.disk().operations >= at, "the trouble came");
    assert!(shard.lock().sessions.is_written(f), "one of its two handles is open");
    assert!(!shard.lock().tree.is_settled(g), "its size is what the fragments have");
}

#[test]
fn the_size_of_a_file_is_doubted_also_when_its_writer_closes_it_later() {
    let folder = tempfile::tempdir().unwrap();
    let (shard, ino) = settled_file(folder.path());
    let caller = |id| Caller::new(SESSION, id);
    shard.handle(caller(3), Request::Open { ino, write: true });
    assert_eq!(shard.handle(caller(4), Request::Doubt { inos: vec![ino] }), Reply::Done);
    let handles = vec![ClosedHandle { ino, write: true, written: None }];
    let Reply::Measure(files) = shard.handle(caller(5), Request::Close { handles }) else {
        panic!("no answer")
    };
    let [(_, epoch)] = files[..] else { panic!("{files:?}") };
    shard.handle(caller(6), Request::Settle { ino, size: 5, mtime: now(), epoch: epoch - 1 });
    assert!(!shard.lock().tree.is_settled(ino), "it was measured before the loss");
    shard.handle(caller(6), Request::Settle { ino, size: 5, mtime: now(), epoch });
    assert!(shard.lock().tree.is_settled(ino));
    assert_eq!(shard.handle(caller(7), Request::Doubt { inos: Vec::new() }), Reply::Done);
    assert!(!shard.lock().tree.is_settled(ino));
}
