//! How full the namespace is, within bounded time.
//!
//! `umount` asks that before it unmounts, so a storage node that hangs must not hold the answer up: after a second it
//! is what was last known.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use client::{Client, Errno, Operations as _, Result, Usage};
use fuse::abi::StatFsOut;

/// How long the nodes may take. Living ones answer in less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the nodes last said.
#[derive(Debug, Default)]
pub struct LastUsage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Result<Usage>>,
    /// A thread asks; one at a time, however often a hung node is asked for.
    asking: bool,
    answers: u64,
}

impl LastUsage {
    /// Asks the nodes, or joins who does.
    ///
    /// # Errors
    /// What asking failed with; ETIMEDOUT where the nodes have never answered.
    pub fn ask(self: &Arc<LastUsage>, client: &Arc<Client>) -> Result<Usage> {
        let mut state = self.state();
        let before = state.answers;
        if !state.asking {
            state.asking = true;
            let (this, client) = (Arc::clone(self), Arc::clone(client));
            let asking = std::thread::Builder::new().name("usage".into()).spawn(move || {
                let usage = client.usage();
                // A client that ends with this thread ends before the answer is told.
                drop(client);
                this.answered(usage);
            });
            if asking.is_err() {
                state.asking = false;
            }
        }
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.answers == before);
        let (state, _) = waited.expect(POISON);
        state.last.unwrap_or(Err(Errno::TIMEDOUT))
    }

    fn answered(&self, usage: Result<Usage>) {
        let mut state = self.state();
        *state = State { last: Some(usage), asking: false, answers: state.answers + 1 };
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(POISON)
    }
}

const POISON: &str = "no thread panics while it holds the last usage";

/// The unit of `statfs`.
const BLOCK_BYTES: u32 = 4096;

/// What `statfs` says.
pub fn statfs_of(usage: &Usage) -> StatFsOut {
    let unit = u64::from(BLOCK_BYTES);
    let free = usage.capacity.saturating_sub(usage.used) / unit;
    // It is beside the capacity: what can be written is not less for it.
    let metadata = usage.metadata.map_or(0, |metadata| metadata.used / unit);
    // A home of an older release says nothing: as many more as there are free blocks is a modest promise.
    let more = usage.metadata.map_or(free, |metadata| metadata.files);
    StatFsOut {
        blocks: usage.capacity / unit,
        bfree: free.saturating_sub(metadata),
        bavail: free,
        files: usage.inodes + more,
        ffree: more,
        bsize: BLOCK_BYTES,
        namelen: 255,
        frsize: BLOCK_BYTES,
        ..StatFsOut::default()
    }
}

#[cfg(test)]
mod tests {
    use client::MetadataRoom;

    use super::*;

    #[test]
    fn metadata_counts_as_used_and_leaves_what_can_be_written() {
        let usage = Usage { capacity: 1 << 20, used: 1 << 18, inodes: 7, metadata: None };
        let before = statfs_of(&usage);
        assert_eq!((before.bfree, before.bavail, before.ffree), (192, 192, 192));
        let metadata = Some(MetadataRoom { used: 1 << 19, files: 5 });
        let told = statfs_of(&Usage { metadata, ..usage });
        assert_eq!((told.blocks, told.bfree, told.bavail), (256, 64, 192));
        assert_eq!((told.files, told.ffree), (12, 5));
    }
}
