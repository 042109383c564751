//! `kill -9`.

use std::time::Duration;

use crate::ground::Ground;
use crate::scenario::Victim;

impl Ground {
    /// Kills it, and starts it again after a moment if nobody else does.
    #[track_caller]
    pub fn kill(&mut self, victim: Victim) {
        match victim {
            Victim::Storage | Victim::Home => {
                let n = if victim == Victim::Home { 0 } else { self.any_storage() };
                self.site.storage[n].kill();
                self.pause(20);
                self.site.storage[n].start();
            }
            Victim::AllStorage => {
                self.site.storage.iter_mut().for_each(|node| node.kill());
                self.site.storage.iter_mut().for_each(|node| node.start());
            }
            Victim::Mount => {
                let n = self.any_compute();
                self.site.compute[n].kill_mount();
            }
            Victim::Supervisor => {
                let n = self.any_compute();
                let pause = Duration::from_millis(self.random.below(20));
                self.site.compute[n].restart_supervisor(pause);
            }
        }
    }
}
