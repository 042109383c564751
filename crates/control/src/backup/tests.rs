//! Databases that are copied while somebody changes them, and put back.

use rusqlite::Transaction;
use tempfile::TempDir;

use super::*;
use crate::state::{Database, counters};

fn next(tx: &Transaction<'_>) -> state::Result<u64> {
    counters::next(tx, counters::Counter::Token)
}

/// A state folder whose control has given `tokens` tokens.
async fn folder(tokens: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("control.db")).unwrap();
    for _ in 0..tokens {
        database.transact(next).await.unwrap();
    }
    folder
}

/// The next token that a control would give.
async fn next_of(folder: &Path) -> u64 {
    Database::open(&folder.join("control.db")).unwrap().transact(next).await.unwrap()
}

#[tokio::test]
async fn a_copy_is_what_was_committed_and_only_its_owner_reads_it() {
    let (folder, elsewhere) = (folder(4).await, tempfile::tempdir().unwrap());
    let copy = elsewhere.path().join("copy.db");
    fs::write(&copy, "an older one").unwrap();
    let running = Database::open(&folder.path().join("control.db")).unwrap();
    backup(folder.path(), &copy).unwrap();
    let given = running.transact(next).await.unwrap();
    assert_eq!(fs::metadata(&copy).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 1, "nothing lies beside it");
    let new = tempfile::tempdir().unwrap();
    restore(new.path(), &copy, false).unwrap();
    assert_eq!(next_of(new.path()).await, given, "it knows what was given before it was made");
}

#[tokio::test]
async fn a_copy_can_be_made_while_control_changes_the_database_all_the_time() {
    let (folder, elsewhere) = (folder(1).await, tempfile::tempdir().unwrap());
    let running = Database::open(&folder.path().join("control.db")).unwrap();
    let path = folder.path().to_owned();
    let changing = tokio::spawn(async move {
        loop {
            running.transact(next).await.unwrap();
        }
    });
    let copies = elsewhere.path().to_owned();
    let copied = tokio::task::spawn_blocking(move || {
        for n in 0..10 {
            backup(&path, &copies.join(n.to_string())).unwrap();
        }
    });
    copied.await.unwrap();
    assert!(!changing.is_finished(), "control was kept from its changes");
    changing.abort();
}

#[tokio::test]
async fn a_restore_replaces_nothing_unless_told_and_keeps_what_it_replaces() {
    let (old, newer) = (folder(1).await, folder(5).await);
    let copy = old.path().join("copy.db");
    backup(old.path(), &copy).unwrap();
    let database = newer.path().join("control.db");
    let before = fs::read(&database).unwrap();
    assert!(matches!(restore(newer.path(), &copy, false), Err(BackupError::Exists { .. })));
    let lock = lock::exclusive(&newer.path().join("control.lock")).unwrap();
    assert!(matches!(restore(newer.path(), &copy, true), Err(BackupError::Lock(_))), "control runs");
    assert!(fs::read(&database).unwrap() == before);
    drop(lock);

    // What a control that was killed left of a change must not be undone in the copy.
    fs::write(with_end(&database, "-journal"), "of the one that is replaced").unwrap();
    restore(newer.path(), &copy, true).unwrap();
    assert!(fs::read(with_end(&database, "-replaced")).unwrap() == before);
    let journals = ["-replaced-journal", "-journal"].map(|end| is_there(&with_end(&database, end)).unwrap());
    assert_eq!(journals, [true, false]);
    assert_eq!(next_of(newer.path()).await, next_of(old.path()).await);
}

#[tokio::test]
async fn a_damaged_or_missing_copy_is_refused_and_nothing_is_touched() {
    let folder = folder(1).await;
    let copy = folder.path().join("copy.db");
    backup(folder.path(), &copy).unwrap();
    let whole = fs::read(&copy).unwrap();
    let before = fs::read(folder.path().join("control.db")).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() - 4096..][..8].fill(0xA5);
    fs::write(&copy, damaged).unwrap();
    let refused = restore(folder.path(), &copy, true).unwrap_err();
    assert!(refused.to_string().contains("copy.db is damaged"), "{refused}");
    fs::write(&copy, "no database").unwrap();
    assert!(restore(folder.path(), &copy, true).is_err());
    assert!(matches!(restore(folder.path(), Path::new("/nowhere"), true), Err(BackupError::NoCopy { .. })));
    assert!(fs::read(folder.path().join("control.db")).unwrap() == before);
    assert!(!is_there(&folder.path().join("control.db-replaced")).unwrap());
    assert!(matches!(backup(Path::new("/nowhere"), &copy), Err(BackupError::NoDatabase { .. })));
}
