//! That removed objects stay away: a node that loses its power may bring back what it had removed just before. A second
//! or two after the removals all fragments are asked, for many files at once, to remove what came back and to make that
//! durable. Then the log forgets the files. Nobody waits for it: the space is free before.
//!
//! **Invariant:** the log knows of a file that was destroyed until no power loss can bring an object of it back.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use model::stripe::Layout;
use model::{FragmentIndex, Ino};

use super::super::Shard;
use super::super::record::Record;
use super::PAUSE;
use crate::errno::errno_of;
use crate::objects::Objects;
use crate::peers::Peers;

/// The longest pause between two requests to a node that is away.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// So many files are asked for at once: their list must fit a message.
const BATCH: usize = 16_384;

/// Sees to it that what was removed a while ago stays away.
pub(super) fn run(shard: &Weak<Shard>) {
    let mut pause = PAUSE;
    loop {
        std::thread::sleep(pause);
        let Some(strong) = shard.upgrade().filter(|shard| !shard.destroyer.is_closed()) else { return };
        let due = strong.lock().unconfirmed.take_due();
        let (layout, objects, peers) = (strong.layout, strong.objects.clone(), strong.peers.clone());
        // Not the shard: a node that hangs must not keep its files open.
        drop(strong);
        let parts = Parts { layout, objects, peers };
        let longer = PAUSE_MAX.min(2 * std::mem::replace(&mut pause, PAUSE));
        for batch in due.chunks(BATCH) {
            let left = parts.left_of(batch);
            if !left.is_empty() {
                pause = longer;
            }
            let inos: Vec<Ino> = batch.iter().copied().filter(|ino| !left.contains(ino)).collect();
            let Some(shard) = shard.upgrade() else { return };
            if !inos.is_empty() {
                // If the log cannot take it, they are asked for once more.
                let _logged = shard.lock().record(None, Record::Confirmed { inos });
            }
        }
    }
}

/// Where objects were removed.
struct Parts {
    layout: Layout,
    objects: Arc<Objects>,
    peers: Arc<Peers>,
}

impl Parts {
    /// Those of these files of which a fragment may bring back an object.
    fn left_of(&self, batch: &[Ino]) -> BTreeSet<Ino> {
        let mut left = BTreeSet::new();
        for fragment in FragmentIndex::all(self.layout.fragments) {
            let has_part = |ino: &Ino| self.layout.fragments_of(*ino).any(|one| one == fragment);
            let inos: Vec<Ino> = batch.iter().copied().filter(has_part).collect();
            if inos.is_empty() {
                continue;
            }
            let gone = match self.peers.is_self(fragment) {
                true => self.objects.destroy_for_good(&inos).map_err(|error| errno_of(&error)),
                false => self.peers.destroy_for_good(fragment, inos.clone()),
            };
            if let Err(errno) = gone {
                let node = self.peers.name(fragment);
                tracing::debug!(%fragment, ?node, files = inos.len(), %errno, "removed objects may come back there");
                left.extend(inos);
            }
        }
        left
    }
}
