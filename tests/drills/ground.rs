//! Where a batch of a drill runs: its nodes and mounts, what they lie on, and the load.

use std::path::PathBuf;

use tests::disk::Disk;
use tests::random::Random;
use tests::site::{Plan, Site};

use crate::load::{Counts, Running};
use crate::relay::Relay;
use crate::scenario::{Disks, Fault, Scenario, Victim};

/// All of it. What is dropped first is named first.
pub struct Ground {
    /// The load.
    pub load: Running,
    /// Between the mounts and each storage node, if the drill is about links.
    pub relays: Vec<Relay>,
    /// Nodes and mounts.
    pub site: Site,
    /// A disk for each storage node, if the drill is about disks.
    pub disks: Vec<Disk>,
    /// Where the load works.
    pub mounts: Vec<PathBuf>,
    /// What chance decides.
    pub random: Random,
}

impl Ground {
    /// Starts everything.
    #[track_caller]
    pub fn start(scenario: &Scenario, seed: u64) -> Ground {
        let plan = scenario.plan.clone();
        let nodes = plan.storage_nodes;
        let disks: Vec<Disk> = match scenario.disks {
            Disks::Shared => Vec::new(),
            Disks::Xfs => (0..nodes).map(|_| Disk::xfs()).collect(),
            Disks::Ext4 => (0..nodes).map(|_| Disk::ext4()).collect(),
        };
        let folders: Vec<PathBuf> = disks.iter().map(Disk::folder).collect();
        let through_relays = scenario.faults.iter().any(|fault| fault.is_of_links());
        let mounts = plan.mounts;
        let plan = Plan { mounts: if through_relays { 0 } else { mounts }, ..plan };
        let disk = |n| folders.get(n).map(PathBuf::as_path);
        let start = if scenario.mirrored { Site::start_mirrored } else { Site::start_on };
        let mut site = start(plan, disk);
        let mut relays = Vec::new();
        if through_relays {
            relays = site.storage.iter().map(|node| Relay::start(node.address())).collect();
            for (node, relay) in site.storage.iter_mut().zip(&relays) {
                node.reach_through(relay.address());
            }
            for _ in 0..mounts {
                site.add_mount();
            }
        }
        let mounts: Vec<PathBuf> = (0..mounts).map(|n| site.mountpoint(n)).collect();
        let load = Running::start(scenario.load, &mounts, seed);
        Ground { load, relays, site, disks, mounts, random: Random::new(seed) }
    }

    /// One fault, with all that comes before and after it.
    #[track_caller]
    pub fn round(&mut self, number: u64, fault: Fault) {
        self.load.await_progress();
        self.pause(60);
        self.load.warn(fault);
        self.strike(fault);
        self.load.settle(fault);
        if number % 10 == 9 {
            let mounts = self.mounts.clone();
            self.load.compare("check", &mounts);
        }
    }

    /// The end of it: all that must be there is.
    #[track_caller]
    pub fn finish(mut self) -> Counts {
        let counts = self.load.finish(&mut self.site, &self.mounts);
        for node in &self.site.compute {
            let mount = &node.call("GET", "/v1/health", None)["mounts"][0];
            assert_eq!(mount["interruptions"], 0, "a mount was lost and made anew: {mount}");
        }
        counts
    }

    /// How many processes, disks or links this fault strikes.
    pub fn struck_by(&self, fault: Fault) -> u64 {
        match fault {
            Fault::Kill(Victim::AllStorage) | Fault::Freeze(Victim::AllStorage) => {
                self.site.storage.len() as u64
            }
            _ => 1,
        }
    }

    /// Up to so many milliseconds in which the load works.
    pub fn pause(&mut self, most: u64) {
        std::thread::sleep(std::time::Duration::from_millis(self.random.below(most)));
    }

    /// Any storage node's number.
    pub fn any_storage(&mut self) -> usize {
        self.random.below(self.site.storage.len() as u64) as usize
    }

    /// The number of any node that mounts.
    pub fn any_compute(&mut self) -> usize {
        self.random.below(self.mounts.len() as u64) as usize
    }
}
