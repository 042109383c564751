//! What happens to processes, disks and links: a file for each kind. Each strikes, and repairs what an operator
//! would.
//!
//! **Invariant:** when one returns, all processes run, all disks are writable and all links are open.

mod calls;
mod disk;
mod flip;
mod kill;
mod limits;
mod link;
mod power;
mod stop;

use crate::ground::Ground;
use crate::scenario::Fault;

impl Ground {
    /// Does it, and makes all well again.
    #[track_caller]
    pub fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Kill(victim) => self.kill(victim),
            Fault::Freeze(victim) => self.freeze(victim),
            Fault::Restart => self.restart(),
            Fault::PowerLossOfOne => self.lose_power_of_one(),
            Fault::PowerLossOfAll => self.lose_power_of_all(),
            Fault::CallsFail(calls, error) => self.fail_calls(calls, error),
            Fault::DiskFull => self.fill_disk(),
            Fault::ReadOnly => self.make_read_only(),
            Fault::BitFlip => self.flip_bit(),
            Fault::LinkCut | Fault::LinkHeld | Fault::LinkSlow => self.disturb_link(fault),
            Fault::NoDescriptors => self.exhaust_descriptors(),
            Fault::NoMemory => self.exhaust_memory(),
        }
    }
}
