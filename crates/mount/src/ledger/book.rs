//! What the ledger's records add up to.

use std::collections::{BTreeMap, HashMap, VecDeque};

use client::{Failures, FileLock, Held, LockKind, Remembered};
use model::{FragmentIndex, Ino};

use super::record::{
    Backing, CLOSED, DONE, FAILED, LOCKED, OPENED, PASSED, Record, TOLD, UNLOCKED, VERIFIER, WRITE,
};

/// How many opens and closes are remembered by the number of their request: several times what the session's threads
/// can have in hand, as only what was not answered is asked again.
const DONE_MAX: usize = 128;

/// What is open and locked now.
#[derive(Debug, Default)]
pub struct Book {
    files: HashMap<Ino, Handles>,
    /// By inode and owner; each with the handle that it was taken through.
    locks: BTreeMap<(Ino, u64), Vec<(FileLock, u64)>>,
    done: VecDeque<Record>,
    verifiers: HashMap<FragmentIndex, u64>,
    failures: Failures,
}

#[derive(Clone, Copy, Debug, Default)]
struct Handles {
    readers: u32,
    writers: u32,
    /// Of both, those that are passed through to `backing`.
    passed: u32,
    backing: Backing,
}

impl Book {
    /// Adds one record.
    pub fn apply(&mut self, record: Record) {
        match record.kind {
            OPENED => self.open(&record),
            CLOSED => self.close(&record),
            LOCKED => self.grant(&record),
            UNLOCKED => self.retain_locks((record.ino(), record.owner), |(lock, _)| lock.whole_file),
            VERIFIER => {
                if let Some(fragment) = record.fragment() {
                    self.verifiers.insert(fragment, record.start);
                }
            }
            FAILED => {
                self.failures.failed(record.ino(), record.start, record.count.cast_signed());
            }
            TOLD => self.failures.told(record.ino(), record.owner, record.ino()),
            _ => {}
        }
        if matches!(record.kind, OPENED | CLOSED | DONE) {
            if self.done.len() == DONE_MAX {
                self.done.pop_front();
            }
            self.done.push_back(Record { kind: DONE, ..record });
        }
    }

    /// How many records say all this.
    pub fn record_count(&self) -> usize {
        let failures: usize = self.failures.iter().map(|(_, failure)| 1 + failure.told.len()).sum();
        let locks: usize = self.locks.values().map(Vec::len).sum();
        2 * self.files.len() + locks + self.done.len() + self.verifiers.len() + failures
    }

    /// Records that say all this.
    pub fn records(&self) -> Vec<Record> {
        let opens = self.files.iter().flat_map(|(&ino, handles)| {
            // Whether readers or writers are those passed through does not matter: each close says what it closes.
            let passed_readers = handles.readers.min(handles.passed);
            let passed_writers = handles.passed - passed_readers;
            let (none, backing) = (Backing::default(), handles.backing);
            let record = |write, backing, count| Record { count, ..Record::opened(0, ino, write, backing) };
            [
                record(false, none, handles.readers - passed_readers),
                record(false, backing, passed_readers),
                record(true, none, handles.writers - passed_writers),
                record(true, backing, passed_writers),
            ]
        });
        let locks = self.locks.iter().flat_map(|(&(ino, owner), granted)| {
            granted.iter().map(move |(lock, handle)| Record::locked(ino, owner, lock, *handle))
        });
        let opens = opens.filter(|record| record.count > 0);
        // Last, so that they are the latest that were done.
        opens.chain(locks).chain(self.commits()).chain(self.done.iter().copied()).collect()
    }

    fn commits(&self) -> impl Iterator<Item = Record> {
        let verifiers =
            self.verifiers.iter().map(|(fragment, verifier)| Record::verifier(*fragment, *verifier));
        let failures = self.failures.iter().flat_map(|(ino, failure)| {
            let told = failure.told.iter().map(move |handle| Record::told(ino, *handle));
            std::iter::once(Record::failed(ino, failure.stamp, failure.errno)).chain(told)
        });
        verifiers.chain(failures)
    }

    /// What is unconfirmed, and what was lost.
    pub fn remembered(&self) -> Remembered {
        let verifiers = self.verifiers.iter().map(|(fragment, verifier)| (*fragment, *verifier)).collect();
        Remembered { verifiers, failures: self.failures.clone() }
    }

    /// The open or close that the request `unique` ended in.
    pub fn done(&self, unique: u64) -> Option<Record> {
        self.done.iter().rev().find(|record| record.unique == unique).copied()
    }

    /// Whether the owner has had locks on the file.
    pub fn has_locks(&self, ino: Ino, owner: u64) -> bool {
        self.locks.contains_key(&(ino, owner))
    }

    /// The locks of the file that were taken through the handle, each with its owner.
    pub fn taken_through(&self, ino: Ino, handle: u64) -> Vec<(u64, FileLock)> {
        let of_file = self.locks.range((ino, 0)..=(ino, u64::MAX));
        let taken = of_file.flat_map(|((_, owner), granted)| granted.iter().map(move |lock| (*owner, *lock)));
        taken.filter(|(_, (_, by))| *by == handle).map(|(owner, (lock, _))| (owner, lock)).collect()
    }

    /// What is open and locked.
    pub fn held(&self) -> Held {
        let locks = self
            .locks
            .iter()
            .flat_map(|(&(ino, owner), granted)| granted.iter().map(move |(lock, _)| (ino, owner, *lock)));
        Held {
            opens: self.files.iter().map(|(&ino, handles)| (ino, handles.readers, handles.writers)).collect(),
            locks: locks.collect(),
        }
    }

    /// Inodes with a backing file, and their opens that are passed through.
    pub fn backings(&self) -> Vec<(Ino, Backing, u32)> {
        let passed = self.files.iter().filter(|(_, handles)| handles.passed > 0);
        passed.map(|(&ino, handles)| (ino, handles.backing, handles.passed)).collect()
    }

    fn open(&mut self, record: &Record) {
        let handles = self.files.entry(record.ino()).or_default();
        *(if record.has(WRITE) { &mut handles.writers } else { &mut handles.readers }) += record.count;
        if record.backing_id != 0 {
            handles.passed += record.count;
            handles.backing = Backing { id: record.backing_id, object: (record.start, record.end) };
        }
    }

    /// Whether any file is open.
    pub fn is_any_open(&self) -> bool {
        !self.files.is_empty()
    }

    fn close(&mut self, record: &Record) {
        let Some(handles) = self.files.get_mut(&record.ino()) else { return };
        let count = if record.has(WRITE) { &mut handles.writers } else { &mut handles.readers };
        *count = count.saturating_sub(1);
        handles.passed = handles.passed.saturating_sub(u32::from(record.has(PASSED)));
        if (handles.readers, handles.writers) == (0, 0) {
            self.files.remove(&record.ino());
        }
    }

    fn grant(&mut self, record: &Record) {
        let (key, new) = ((record.ino(), record.owner), record.lock());
        let granted = self.locks.entry(key).or_default();
        let rest = |(old, by): &(FileLock, u64)| {
            let by = *by;
            old.outside(&new).map(move |rest| (rest, by))
        };
        *granted = granted.iter().flat_map(rest).collect();
        if new.kind != LockKind::Unlock {
            granted.push((new, record.handle));
        }
        if granted.is_empty() {
            self.locks.remove(&key);
        }
    }

    fn retain_locks(&mut self, key: (Ino, u64), keep: impl Fn(&(FileLock, u64)) -> bool) {
        if let Some(granted) = self.locks.get_mut(&key) {
            granted.retain(keep);
            if granted.is_empty() {
                self.locks.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reread(book: &Book) -> Book {
        let mut again = Book::default();
        book.records().into_iter().for_each(|record| again.apply(record));
        again
    }

    fn backing(id: u32) -> Backing {
        Backing { id, object: (u64::from(id), 10 + u64::from(id)) }
    }

    #[test]
    fn a_book_survives_being_written_anew() {
        let mut book = Book::default();
        for (unique, write, backing) in
            [(2, true, 4), (4, false, 4), (6, true, 4), (8, true, 0), (10, false, 0)]
        {
            book.apply(Record::opened(unique, Ino(7), write, self::backing(backing)));
        }
        book.apply(Record::closed(12, Ino(7), true, true));
        let lock = FileLock { kind: LockKind::Exclusive, start: 5, end: 9, pid: 3, whole_file: false };
        book.apply(Record::locked(Ino(7), 1, &lock, 11));
        let again = reread(&book);
        assert_eq!(again.held(), book.held());
        assert_eq!(
            (again.taken_through(Ino(7), 11), again.taken_through(Ino(7), 12)),
            (vec![(1, lock)], vec![])
        );
        assert_eq!(again.held().opens, [(Ino(7), 2, 2)]);
        assert_eq!(again.backings(), [(Ino(7), backing(4), 2)]);
        assert_eq!(again.done(12).map(|record| record.ino()), Some(Ino(7)));
        assert_eq!(reread(&again).held(), book.held());
    }

    #[test]
    fn the_last_close_takes_the_file_and_its_backing_out() {
        let mut book = Book::default();
        book.apply(Record::opened(2, Ino(7), true, backing(4)));
        book.apply(Record::closed(4, Ino(7), true, true));
        assert_eq!(book.held(), Held::default());
        assert_eq!(book.backings(), []);
        assert_eq!(book.done(2).map(|record| record.backing_id), Some(4));
    }

    #[test]
    fn locks_end_with_their_owner_and_with_the_unlock_that_covers_them() {
        let mut book = Book::default();
        let range = |kind, start, end| FileLock { kind, start, end, pid: 1, whole_file: false };
        let whole = FileLock { whole_file: true, ..range(LockKind::Shared, 0, u64::MAX) };
        book.apply(Record::locked(Ino(7), 1, &range(LockKind::Exclusive, 5, 9), 11));
        book.apply(Record::locked(Ino(7), 1, &range(LockKind::Unlock, 0, u64::MAX), 11));
        assert!(!book.has_locks(Ino(7), 1));
        book.apply(Record::locked(Ino(7), 1, &range(LockKind::Shared, 5, 9), 11));
        book.apply(Record::locked(Ino(7), 1, &whole, 11));
        book.apply(Record::unlocked(Ino(7), 1));
        assert_eq!(book.held().locks, [(Ino(7), 1, whole)]);
    }

    #[test]
    fn a_successor_knows_what_was_lost_and_who_was_told() {
        let mut book = Book::default();
        book.apply(Record::verifier(FragmentIndex(3), 77));
        book.apply(Record::verifier(FragmentIndex(3), 78));
        book.apply(Record::failed(Ino(7), 1000, 5));
        book.apply(Record::told(Ino(7), 900));
        let Remembered { verifiers, failures } = reread(&book).remembered();
        assert_eq!(verifiers, [(FragmentIndex(3), 78)]);
        assert_eq!(failures, book.remembered().failures);
        let owed = |handle| {
            failures.owed(Ino(7), handle).map(|(ino, errno)| (ino, errno.raw_os_error())).collect::<Vec<_>>()
        };
        assert_eq!([owed(900), owed(901)], [vec![], vec![(Ino(7), 5)]]);
    }

    #[test]
    fn only_the_latest_requests_are_remembered() {
        let mut book = Book::default();
        for unique in 0..1000 {
            book.apply(Record::opened(unique, Ino(7), false, Backing::default()));
        }
        assert!(book.done(999).is_some() && book.done(1).is_none());
    }
}
