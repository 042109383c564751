//! What is to be removed on each fragment, and the thread that removes it there, while there is something: a node that
//! does not answer delays what is on it and nothing else.
//!
//! **Invariant:** that a file's objects are gone is in the log only when they are gone from every fragment.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};

use model::{FragmentIndex, Ino};
use rustix::io::Errno;

use super::super::Shard;
use super::super::record::Record;
use super::PAUSE;
use crate::errno::errno_of;

/// The files whose objects are being removed.
#[derive(Default)]
pub(super) struct Lanes {
    /// On how many fragments a file still has its object.
    left: HashMap<Ino, u32>,
    lanes: BTreeMap<FragmentIndex, Lane>,
}

/// The files whose objects on one fragment are to be removed.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<Ino>,
    /// A thread sees to it.
    attended: bool,
}

impl Lanes {
    /// Has the objects of a file removed from these fragments. One that is being removed already stays as it is.
    pub(super) fn add(&mut self, ino: Ino, fragments: impl Iterator<Item = FragmentIndex>) {
        if self.left.contains_key(&ino) {
            return;
        }
        let mut count = 0;
        for fragment in fragments {
            self.lanes.entry(fragment).or_default().waiting.push_back(ino);
            count += 1;
        }
        self.left.insert(ino, count);
    }

    pub(super) fn are_done(&self) -> bool {
        self.left.is_empty()
    }

    /// The fragments that have something to remove and no thread for it; from now on they have one.
    fn unattended(&mut self) -> Vec<FragmentIndex> {
        let idle = self.lanes.iter_mut().filter(|(_, lane)| !lane.attended && !lane.waiting.is_empty());
        idle.map(|(fragment, lane)| {
            lane.attended = true;
            *fragment
        })
        .collect()
    }

    /// The next file; `None`: there is none, and the thread that asked is no longer counted on.
    fn next(&mut self, fragment: FragmentIndex) -> Option<Ino> {
        let lane = self.lanes.get_mut(&fragment)?;
        lane.attended = !lane.waiting.is_empty();
        lane.waiting.front().copied()
    }

    /// The file has no object on the fragment any more. Whether that was the last.
    fn removed(&mut self, fragment: FragmentIndex, ino: Ino) -> bool {
        self.lanes.get_mut(&fragment).map(|lane| lane.waiting.pop_front());
        let left = self.left.entry(ino).or_default();
        *left = left.saturating_sub(1);
        *left == 0
    }
}

/// Gives every fragment that has something to remove a thread.
pub(super) fn attend(shard: &Arc<Shard>) {
    let unattended = shard.destroyer.lock().lanes.unattended();
    for fragment in unattended {
        let weak = Arc::downgrade(shard);
        let name = format!("destroyer-{fragment}");
        if let Err(error) = std::thread::Builder::new().name(name).spawn(move || run(&weak, fragment)) {
            // It is tried again when the destroyer looks next.
            tracing::warn!(%fragment, %error, "no thread to remove objects");
            shard.destroyer.lock().lanes.lanes.entry(fragment).or_default().attended = false;
        }
    }
}

fn run(shard: &Weak<Shard>, fragment: FragmentIndex) {
    let mut in_vain = false;
    while let Some((ino, removed)) = remove_next(shard, fragment) {
        let Some(shard) = shard.upgrade() else { return };
        let node = shard.peers.name(fragment);
        match removed {
            Ok(()) => {
                if std::mem::take(&mut in_vain) {
                    tracing::info!(%fragment, ?node, "objects of removed files can be removed again");
                }
                shard.is_removed(fragment, ino);
            }
            Err(errno) => {
                if !std::mem::replace(&mut in_vain, true) {
                    tracing::warn!(%ino, %fragment, ?node, %errno, "cannot remove an object yet; it is tried again");
                }
                drop(shard);
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Removes the next object of the fragment, or tries to; `None`: there is no more, or the shard ends.
fn remove_next(shard: &Weak<Shard>, fragment: FragmentIndex) -> Option<(Ino, Result<(), Errno>)> {
    let shard = shard.upgrade().filter(|shard| !shard.destroyer.is_closed())?;
    let ino = shard.destroyer.lock().lanes.next(fragment)?;
    if shard.peers.is_self(fragment) {
        return Some((ino, shard.objects.destroy(ino).map_err(|error| errno_of(&error))));
    }
    let peers = shard.peers.clone();
    // A node that hangs must not keep the shard's files open.
    drop(shard);
    Some((ino, peers.destroy(fragment, ino)))
}

impl Shard {
    fn is_removed(&self, fragment: FragmentIndex, ino: Ino) {
        if !self.destroyer.lock().lanes.removed(fragment, ino) {
            return;
        }
        // If the log cannot take it, the orphan is found and removed again after the next start.
        let _logged = self.lock().record(None, Record::Destroyed { ino });
        self.destroyer.lock().lanes.left.remove(&ino);
        self.destroyer.changed.notify_all();
    }
}
