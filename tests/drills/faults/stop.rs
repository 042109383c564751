//! Processes that hang for a moment, and services that are restarted as an upgrade does.

use rustix::process::{Pid, Signal, kill_process};
use tests::processes::wait_until;
use tests::site::{HANGS_AFTER, is_alive};

use crate::ground::Ground;
use crate::scenario::Victim;

/// The longest time that a process is stopped, milliseconds: well below the 11 s after which a machine counts as gone.
const FROZEN_MAX_MS: u64 = 400;

impl Ground {
    /// Stops it for a moment.
    #[track_caller]
    pub fn freeze(&mut self, victim: Victim) {
        let pids = self.pids(victim);
        let signal = |signal| {
            for pid in &pids {
                kill_process(*pid, signal).expect("it runs");
            }
        };
        signal(Signal::STOP);
        self.pause(FROZEN_MAX_MS);
        signal(Signal::CONT);
    }

    fn pids(&mut self, victim: Victim) -> Vec<Pid> {
        let (storage, compute) = (self.any_storage(), self.any_compute());
        let site = &self.site;
        let of = |node: &tests::site::Node| node.pid().expect("it runs");
        match victim {
            Victim::Storage => vec![of(&site.storage[storage])],
            Victim::Home => vec![of(&site.storage[0])],
            Victim::AllStorage => site.storage.iter().map(of).collect(),
            Victim::Supervisor => vec![of(&site.compute[compute])],
            Victim::Mount => {
                let node = &site.compute[compute];
                assert!(wait_until(HANGS_AFTER, || is_alive(node.mount_pid())), "no mount");
                vec![Pid::from_raw(node.mount_pid()).expect("no process has the number 0")]
            }
        }
    }

    /// A storage node ends as it is told to, and starts again.
    #[track_caller]
    pub fn restart(&mut self) {
        let n = self.any_storage();
        self.site.storage[n].stop();
        self.pause(50);
        self.site.storage[n].start();
    }
}
