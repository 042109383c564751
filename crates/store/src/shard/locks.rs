//! Locks on files, across all nodes: `fcntl` ranges and `flock`.
//!
//! Pure, and in memory only: a lock lives as long as its holder's session. After a restart of the shard, sessions say
//! again what they hold before anything new is granted.

use std::collections::HashMap;

use wire::data::{FileLock, LockKind};

/// Who holds a lock: a client, and one of its open file descriptions or processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Holder {
    pub session: [u8; 16],
    pub owner: u64,
}

/// Every lock of one namespace.
#[derive(Debug, Default)]
pub struct Locks {
    files: HashMap<u64, Vec<(Holder, FileLock)>>,
}

impl Locks {
    /// A lock of somebody else that does not go together with `lock`.
    pub fn conflict(&self, ino: u64, holder: Holder, lock: &FileLock) -> Option<FileLock> {
        let held = self.files.get(&ino)?;
        held.iter().find(|(other, held)| *other != holder && conflicts(held, lock)).map(|(_, held)| *held)
    }

    /// Takes, changes or gives up a lock. False when somebody else's is in the way; nothing has changed then.
    pub fn set(&mut self, ino: u64, holder: Holder, lock: &FileLock) -> bool {
        if lock.kind != LockKind::Unlock && self.conflict(ino, holder, lock).is_some() {
            return false;
        }
        let held = self.files.entry(ino).or_default();
        let own = |(other, held): &(Holder, FileLock)| *other == holder && held.whole_file == lock.whole_file;
        let (mine, others): (Vec<_>, Vec<_>) = held.drain(..).partition(own);
        *held = others;
        held.extend(mine.into_iter().flat_map(|(_, old)| outside(&old, lock)).map(|rest| (holder, rest)));
        if lock.kind != LockKind::Unlock {
            held.push((holder, *lock));
        }
        if held.is_empty() {
            self.files.remove(&ino);
        }
        true
    }

    /// Gives up every range lock of one holder on one file.
    pub fn release(&mut self, ino: u64, holder: Holder) {
        self.retain(ino, |(other, lock)| *other != holder || lock.whole_file);
    }

    /// Gives up every lock of one session.
    pub fn release_session(&mut self, session: [u8; 16]) {
        let inodes: Vec<u64> = self.files.keys().copied().collect();
        for ino in inodes {
            self.retain(ino, |(other, _)| other.session != session);
        }
    }

    fn retain(&mut self, ino: u64, keep: impl Fn(&(Holder, FileLock)) -> bool) {
        if let Some(held) = self.files.get_mut(&ino) {
            held.retain(keep);
            if held.is_empty() {
                self.files.remove(&ino);
            }
        }
    }
}

fn conflicts(a: &FileLock, b: &FileLock) -> bool {
    let overlap = a.start <= b.end && b.start <= a.end;
    let exclusive = a.kind == LockKind::Exclusive || b.kind == LockKind::Exclusive;
    a.whole_file == b.whole_file && overlap && exclusive
}

/// What is left of `old` outside the range of `new`: nothing, one part, or one on each side.
fn outside(old: &FileLock, new: &FileLock) -> impl Iterator<Item = FileLock> + use<> {
    let before = (old.start < new.start).then(|| FileLock { end: old.end.min(new.start - 1), ..*old });
    let after = (old.end > new.end).then(|| FileLock { start: old.start.max(new.end + 1), ..*old });
    before.into_iter().chain(after)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lock(kind: LockKind, start: u64, end: u64) -> FileLock {
        FileLock { kind, start, end, pid: 1, whole_file: false }
    }

    fn holder(owner: u64) -> Holder {
        Holder { session: [u8::try_from(owner % 2).unwrap(); 16], owner }
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
                prop_assert_eq!(locks.set(9, holder(owner), &lock(kind, start, start + len)), free);
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
                locks.release(9, holder(owner));
            }
            prop_assert!(locks.files.is_empty());
        }
    }

    #[test]
    fn flock_and_range_locks_do_not_see_each_other() {
        let mut locks = Locks::default();
        let flock = FileLock { whole_file: true, ..lock(LockKind::Exclusive, 0, u64::MAX) };
        assert!(locks.set(9, holder(0), &lock(LockKind::Exclusive, 0, u64::MAX)));
        assert!(locks.set(9, holder(1), &flock));
        locks.release(9, holder(1));
        assert!(!locks.set(9, holder(2), &flock), "closing gives up range locks only");
        locks.release_session(holder(1).session);
        assert!(locks.set(9, holder(2), &flock));
    }
}
