//! What is to be copied, and what is waited for.

use super::*;

fn trouble() -> Trouble {
    Trouble { path: "a".into(), errno: 28, message: "m".into(), advice: "a".into() }
}

fn sized(size: u64) -> Generation {
    Generation { ino: 1, born: (1, 0), size, mtime: (1, 0), ctime: (1, 0), linked: false }
}

#[test]
fn a_file_that_is_closed_again_while_it_is_copied_is_copied_again() {
    let (mut table, now) = (Table::default(), Instant::now());
    let path = Path::new("a");
    assert!(table.notice(path, sized(1), now));
    assert_eq!(table.next(now), Err(Some(now + SETTLE)));
    assert_eq!(table.next(now + SETTLE).unwrap(), path);
    assert!(!table.notice(path, sized(2), now));
    assert_eq!(table.next(now + SETTLE), Err(None), "it is in work once only");
    let barrier = table.raise();
    table.settle(path, Attempt::Done, now);
    assert!(table.lower(barrier).is_none(), "the second version is owed");
    assert_eq!(table.next(now + SETTLE).unwrap(), path);
    table.settle(path, Attempt::Changed, now);
    assert!(table.lower(barrier).is_none(), "it is still owed");
    assert_eq!(table.next(now + SETTLE).unwrap(), path);
    table.settle(path, Attempt::Done, now);
    assert!(table.lower(barrier).is_some());
    assert_eq!(table.counts(|size| size), Counts::default());
}

#[test]
fn a_barrier_names_what_cannot_be_copied_and_does_not_wait_for_what_comes_later() {
    let (mut table, mut now) = (Table::default(), Instant::now());
    table.notice(Path::new("a"), sized(1), now);
    let barrier = table.raise();
    table.notice(Path::new("later"), sized(1), now);
    for _ in 0..TRIES {
        now += PAUSE_MAX;
        let path = std::iter::from_fn(|| table.next(now).ok()).find(|path| path == Path::new("a"));
        assert!(path.is_some());
        assert!(table.lower(barrier).is_none());
        table.settle(Path::new("a"), Attempt::Failed(trouble()), now);
    }
    let barrier = table.lower(barrier).unwrap();
    assert_eq!(barrier.failed.keys().collect::<Vec<_>>(), [Path::new("a")]);
    assert_eq!(table.counts(|size| size).failed, 1, "and it is tried again");
}
