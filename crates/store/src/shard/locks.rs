//! Locks on files, across all nodes: `fcntl` ranges and `flock`.
//!
//! Pure, and in memory only: a lock lives as long as its holder's session. After a restart of the shard, sessions say
//! again what they hold before anything new is granted.

use std::collections::HashMap;

use model::{Ino, SessionId};
use wire::data::{FileLock, LockKind};

/// Who holds a lock: a client, and one of its open file descriptions or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub session: SessionId,
    pub owner: u64,
}

/// The most locks of one session: what it holds must fit one message when the shard was restarted.
const LOCKS_MAX: usize = 16_384;

/// What became of a request for a lock. Nothing has changed unless it was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Granted,
    /// Somebody else's lock is.
    InTheWay,
    /// The session has as many as it may.
    TooMany,
}

/// Every lock of one namespace.
#[derive(Debug, Default)]
pub struct Locks {
    files: HashMap<Ino, Vec<(Holder, FileLock)>>,
    counts: HashMap<SessionId, usize>,
}

impl Locks {
    /// A lock of somebody else that does not go together with `lock`.
    pub fn conflict(&self, ino: Ino, holder: Holder, lock: &FileLock) -> Option<FileLock> {
        let held = self.files.get(&ino)?;
        held.iter().find(|(other, held)| *other != holder && conflicts(held, lock)).map(|(_, held)| *held)
    }

    /// Takes, changes or gives up a lock.
    pub fn set(&mut self, ino: Ino, holder: Holder, lock: &FileLock) -> Verdict {
        if lock.kind != LockKind::Unlock && self.conflict(ino, holder, lock).is_some() {
            return Verdict::InTheWay;
        }
        let held = self.files.get(&ino).map_or(&[][..], Vec::as_slice);
        let (mine, mut all): (Vec<_>, Vec<_>) = held.iter().partition(|(other, _)| *other == holder);
        let others = all.len();
        all.extend(mine.iter().flat_map(|(_, old)| old.outside(lock)).map(|rest| (holder, rest)));
        if lock.kind != LockKind::Unlock {
            all.push((holder, *lock));
        }
        let count = self.counts.get(&holder.session).copied().unwrap_or(0) + all.len() - others - mine.len();
        if all.len() - others > mine.len() && count > LOCKS_MAX {
            return Verdict::TooMany;
        }
        self.count(holder.session, count);
        if all.is_empty() {
            self.files.remove(&ino);
        } else {
            self.files.insert(ino, all);
        }
        Verdict::Granted
    }

    /// Gives up every range lock of one holder on one file.
    pub fn release(&mut self, ino: Ino, holder: Holder) {
        let gone = self.remove(ino, |(other, lock)| *other == holder && !lock.whole_file);
        let count = self.counts.get(&holder.session).copied().unwrap_or(0);
        self.count(holder.session, count - gone);
    }

    /// Gives up every lock of one session.
    pub fn release_session(&mut self, session: SessionId) {
        let inodes: Vec<Ino> = self.files.keys().copied().collect();
        for ino in inodes {
            self.remove(ino, |(other, _)| other.session == session);
        }
        self.counts.remove(&session);
    }

    fn remove(&mut self, ino: Ino, which: impl Fn(&(Holder, FileLock)) -> bool) -> usize {
        let Some(held) = self.files.get_mut(&ino) else { return 0 };
        let before = held.len();
        held.retain(|lock| !which(lock));
        let gone = before - held.len();
        if held.is_empty() {
            self.files.remove(&ino);
        }
        gone
    }

    fn count(&mut self, session: SessionId, count: usize) {
        if count == 0 {
            self.counts.remove(&session);
        } else {
            self.counts.insert(session, count);
        }
    }
}

fn conflicts(a: &FileLock, b: &FileLock) -> bool {
    let overlap = a.start <= b.end && b.start <= a.end;
    let exclusive = a.kind == LockKind::Exclusive || b.kind == LockKind::Exclusive;
    a.whole_file == b.whole_file && overlap && exclusive
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(kind: LockKind, start: u64, end: u64) -> FileLock {
        FileLock { kind, start, end, pid: 1, whole_file: false }
    }

    fn holder(owner: u64) -> Holder {
        Holder { session: SessionId([u8::try_from(owner % 2).unwrap(); 16]), owner }
    }

    proptest! {
        #[test]
        fn locks_agree_with_a_table_of_bytes(
            steps in prop::collection::vec((0u64..3, 0u8..3, 0u64..20, 0u64..10), 0..80)
        ) {
            let mut locks = Locks::default();
            let mut bytes: HashMap<(u64, u64), LockKind> = HashMap::new();
            for (owner, kind, start, len) in steps {
                let kind = [LockKind::Shared, LockKind::Exclusive, LockKind::Unlock][usize::from(kind)];
                let range = start..=start + len;
                let free = kind == LockKind::Unlock || range.clone().all(|byte| (0..3).filter(|&o| o != owner).all(|other| {
                    match bytes.get(&(other, byte)) {
                        None => true,
                        Some(held) => *held == LockKind::Shared && kind == LockKind::Shared,
                    }
                }));
                let verdict = locks.set(Ino(9), holder(owner), &lock(kind, start, start + len));
                prop_assert_eq!(verdict == Verdict::Granted, free);
                if free {
                    for byte in range {
                        match kind {
                            LockKind::Unlock => drop(bytes.remove(&(owner, byte))),
                            _ => drop(bytes.insert((owner, byte), kind)),
                        }
                    }
                }
            }
            for owner in 0..3 {
                locks.release(Ino(9), holder(owner));
            }
            prop_assert!(locks.files.is_empty() && locks.counts.is_empty());
        }
    }

    #[test]
    fn flock_and_range_locks_do_not_see_each_other() {
        let mut locks = Locks::default();
        let flock = FileLock { whole_file: true, ..lock(LockKind::Exclusive, 0, u64::MAX) };
        assert_eq!(locks.set(Ino(9), holder(0), &lock(LockKind::Exclusive, 0, u64::MAX)), Verdict::Granted);
        assert_eq!(locks.set(Ino(9), holder(1), &flock), Verdict::Granted);
        locks.release(Ino(9), holder(1));
        assert_eq!(
            locks.set(Ino(9), holder(2), &flock),
            Verdict::InTheWay,
            "closing gives up range locks only"
        );
        locks.release_session(holder(1).session);
        assert_eq!(locks.set(Ino(9), holder(2), &flock), Verdict::Granted);
    }

    #[test]
    fn a_session_has_so_many_locks_and_no_more_until_it_gives_some_up() {
        let mut locks = Locks::default();
        let every_other = |n| lock(LockKind::Shared, 2 * n, 2 * n);
        for n in 0..LOCKS_MAX as u64 {
            // Not all on one file: that is searched from end to end for each.
            assert_eq!(locks.set(Ino(n % 512), holder(0), &every_other(n)), Verdict::Granted);
        }
        assert_eq!(locks.set(Ino(600), holder(0), &every_other(0)), Verdict::TooMany);
        assert_eq!(locks.set(Ino(600), holder(1), &every_other(0)), Verdict::Granted);
        locks.release(Ino(0), holder(0));
        assert_eq!(locks.set(Ino(600), holder(0), &every_other(0)), Verdict::Granted);
    }
}
