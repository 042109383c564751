//! What other fragments may lose of a truncation: the home had them cut off their objects, and the client that knows of
//! it may be gone when one of them loses its power. Then what was cut off is back there, and the home's size of the
//! file is wrong. So the home follows the commit verifiers of the fragments.
//!
//! ```text
//! a connection to a fragment begins: its verifier is another than the log has
//!   -> the size of each file that was cut off is doubted: it is what the fragments have
//!   -> the log gets the new verifier
//! ```
//!
//! **Invariant:** a fragment is asked nothing in a new life before the home knows what was lost in the last.

use std::sync::{Arc, Weak};
use std::time::Duration;

use model::{FragmentIndex, Ino};
use rustix::io::Errno;
use wire::data::FileKind;

use super::Shard;
use super::record::Record;
use super::state::State;

/// How often the home checks that the other fragments have not lost their memory, while they have anything to lose.
const PERIOD: Duration = Duration::from_secs(1);

impl Shard {
    /// A connection to another fragment begins, which has this commit verifier.
    fn fragment_has(&self, fragment: FragmentIndex, verifier: u64) {
        let mut state = self.lock();
        let before = state.followed.verifier_of(fragment);
        if before == Some(verifier) {
            return;
        }
        let noted = if before.is_some() { self.doubt_cut(&mut state, fragment) } else { Ok(()) };
        // Last: if this is lost, it is found again.
        let noted = noted.and_then(|()| state.record(None, Record::Followed { fragment, verifier }));
        if noted.is_err() {
            // The log says why. It is found again by the next connection, and by the next start.
            tracing::error!(%fragment, "cannot note what another storage node may have lost");
        }
    }

    fn doubt_cut(&self, state: &mut State, fragment: FragmentIndex) -> Result<(), Errno> {
        let (inos, all) = state.followed.cut_off();
        if inos.is_empty() && !all {
            return Ok(());
        }
        tracing::warn!(
            node = ?self.peers.name(fragment),
            files = inos.len(),
            others = all,
            "another storage node has lost what it had not synced: files that were cut off are as long as the nodes have them"
        );
        state.doubt_files(if all { &[] } else { &inos })
    }
}

impl State {
    /// The sizes of these files, or of all if none is named, are what the fragments have: one of those has lost
    /// something.
    ///
    /// # Errors
    /// The errno of the log.
    pub(super) fn doubt_files(&mut self, inos: &[Ino]) -> Result<(), Errno> {
        if inos.is_empty() {
            self.doubt_all()?;
        }
        for ino in inos.iter().copied() {
            if self.tree.get(ino).is_some_and(|inode| inode.kind == FileKind::Regular) {
                self.doubt(ino);
            }
        }
        // Whoever has one open for writing reports how far it wrote, not what is left of it.
        self.sessions.sizes_unknown(inos);
        Ok(())
    }
}

/// Follows the other fragments, if there are some, until the shard is closed.
pub fn start(shard: &Arc<Shard>) {
    if shard.measures_itself() || shard.peers.all().count() < 2 {
        return;
    }
    let heed = Arc::downgrade(shard);
    shard.peers.heed(Box::new(move |fragment, verifier| {
        heed.upgrade().iter().for_each(|shard| shard.fragment_has(fragment, verifier));
    }));
    let shard = Arc::downgrade(shard);
    std::thread::Builder::new()
        .name("following".into())
        .spawn(move || run(&shard))
        .expect("the system has a thread for each namespace");
}

fn run(shard: &Weak<Shard>) {
    loop {
        std::thread::sleep(PERIOD);
        // Not the shard: a node that hangs must not keep its files open.
        let peers = match shard.upgrade() {
            Some(shard) if shard.destroyer.is_closed() => return,
            Some(shard) if shard.lock().followed.is_idle() => continue,
            Some(shard) => shard.peers.clone(),
            None => return,
        };
        peers.all().filter(|fragment| !peers.is_self(*fragment)).for_each(|fragment| peers.look(fragment));
    }
}
