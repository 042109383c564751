//! A storage node that gets no more descriptors, or no more memory.

use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use tests::site::is_alive;

use crate::ground::Ground;

/// So long it gets no more, at most, milliseconds.
const EXHAUSTED_MAX_MS: u64 = 400;

impl Ground {
    /// It gets no new descriptor.
    #[track_caller]
    pub fn exhaust_descriptors(&mut self) {
        let n = self.any_storage();
        self.limit(n, Resource::Nofile, 3);
    }

    /// It gets no new memory. A process may end of that; then it is started again.
    #[track_caller]
    pub fn exhaust_memory(&mut self) {
        let n = self.any_storage();
        let pid = self.site.storage[n].pid().expect("it runs").as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).expect("proc(5)");
        let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        // Not the address space: the allocator has reserved far more of that than it uses.
        self.limit(n, Resource::Data, kib * 1024);
    }

    fn limit(&mut self, n: usize, resource: Resource, most: u64) {
        let pid = self.site.storage[n].pid().expect("it runs");
        // Whoever may lower the hard limit may not always raise it again; the node's is the one that we gave it.
        let small = Rlimit { current: Some(most), maximum: getrlimit(resource).maximum };
        let before = prlimit(Some(pid), resource, small).expect("we are root");
        // What is connected has all that it needs; whoever comes back needs more.
        let mount = self.random.below(self.site.compute.len() as u64) as usize;
        self.site.compute[mount].kill_mount();
        self.pause(EXHAUSTED_MAX_MS);
        if is_alive(pid.as_raw_nonzero().get()) {
            prlimit(Some(pid), resource, before).expect("we are root");
        } else {
            self.site.storage[n].kill();
            self.site.storage[n].start();
        }
    }
}
