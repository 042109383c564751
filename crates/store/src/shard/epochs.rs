//! Epochs: which state of a file a size was measured in.
//!
//! A file gets another epoch whenever its size is made anything but what somebody may have measured before: it is
//! opened by its first writer, cut off, or lost changes. They are drawn from one counter of the namespace, so that the
//! log keeps one number and not one for each file.
//!
//! **Invariant:** no file has an epoch twice, also after a restart or a power loss.

use super::record::Record;

/// How many epochs a power loss may have taken back: more than can be given out before a log is synced.
const UNSYNCED_MAX: u64 = 1 << 32;

/// The last epoch that was given out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epochs(u64);

impl Epochs {
    /// One that no file of the namespace has had.
    pub fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// The same, where the log may lack the last ones that were given out.
    pub fn draw_after_power_loss(&mut self) -> u64 {
        self.0 += UNSYNCED_MAX;
        self.draw()
    }

    /// The log says that this one was given out.
    pub fn given(&mut self, epoch: u64) {
        self.0 = self.0.max(epoch);
    }

    /// What makes the same in a log that is written anew.
    pub fn snapshot(self) -> Record {
        Record::Epochs { last: self.0 }
    }
}
