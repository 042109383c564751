//! What works in the mounts during a drill, and what comes of it.

use std::path::PathBuf;

use tests::site::Site;
use tests::writers::{Writer, assert_shared};

use crate::programs::Program;
use crate::scenario::{Fault, Load};

/// A load at work.
pub enum Running {
    /// [`Load::Strict`].
    Strict(Vec<Writer>),
    /// [`Load::Honest`], with what each answered last.
    Honest(Vec<Writer>, Vec<Counts>),
    /// [`Load::Program`]; none when it has ended.
    Program(Option<Program>),
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations whose result was checked.
    pub operations: u64,
    /// Fsyncs that said OK, where that is counted.
    pub syncs: u64,
    /// Calls that failed and were allowed to.
    pub refusals: u64,
    /// Changes that were lost and had not been confirmed.
    pub losses: u64,
}

impl Counts {
    /// Adds what another did.
    pub fn add(&mut self, other: Counts) {
        self.operations += other.operations;
        self.syncs += other.syncs;
        self.refusals += other.refusals;
        self.losses += other.losses;
    }

    fn of(numbers: &[u64]) -> Counts {
        let [operations, syncs, refusals, losses] = *numbers else { panic!("four numbers: {numbers:?}") };
        Counts { operations, syncs, refusals, losses }
    }
}

impl Running {
    /// Starts it in these mounts.
    #[track_caller]
    pub fn start(load: Load, mounts: &[PathBuf], seed: u64) -> Running {
        let writers = |mode| {
            let numbered = mounts.iter().enumerate();
            numbered.map(|(n, mount)| Writer::start(mode, mount, n, seed + n as u64)).collect()
        };
        match load {
            Load::Strict => Running::Strict(writers("load")),
            Load::Honest => Running::Honest(writers("honest"), vec![Counts::default(); mounts.len()]),
            Load::Program(name) => Running::Program(Some(Program::start(name, &mounts[0]))),
        }
    }

    /// A program has done something since this was asked last: no fault strikes one that has not begun again.
    #[track_caller]
    pub fn await_progress(&mut self) {
        if let Running::Program(program) = self {
            program.iter_mut().for_each(Program::await_progress);
        }
    }

    /// Tells who wants to know what may happen now.
    #[track_caller]
    pub fn warn(&mut self, fault: Fault) {
        if fault.fails_calls() {
            self.order(if fault.loses_unconfirmed() { "danger loss" } else { "danger errors" });
        }
    }

    /// The fault is over: all works again, and looks at what is there.
    #[track_caller]
    pub fn settle(&mut self, fault: Fault) {
        match self {
            Running::Strict(writers) => writers.iter_mut().for_each(Writer::assert_works),
            Running::Honest(writers, _) if !fault.fails_calls() => {
                writers.iter_mut().for_each(Writer::assert_works);
            }
            Running::Honest(..) => {
                // What one mount has lost is told to the others when it is back: all are, before anything is an error.
                self.order("hear");
                self.order("settled");
            }
            Running::Program(program) => program.iter_mut().for_each(Program::assert_works),
        }
    }

    /// Gives the honest writers an order; others have none.
    #[track_caller]
    pub fn order(&mut self, order: &str) {
        if let Running::Honest(writers, counts) = self {
            for (writer, counts) in writers.iter_mut().zip(counts) {
                *counts = Counts::of(&writer.ask(order));
            }
        }
    }

    /// The honest writers compare what they wrote with what the mounts show; each its own with another's.
    #[track_caller]
    pub fn compare(&mut self, word: &str, mounts: &[PathBuf]) {
        if let Running::Honest(writers, counts) = self {
            for (n, (writer, counts)) in writers.iter_mut().zip(counts).enumerate() {
                let mount = &mounts[(n + 1) % mounts.len()];
                *counts = Counts::of(&writer.ask(&format!("{word} {}", mount.display())));
            }
        }
    }

    /// Ends it: nothing may be only in somebody's memory, and all must be there, also for a client that is new.
    #[track_caller]
    pub fn finish(&mut self, site: &mut Site, mounts: &[PathBuf]) -> Counts {
        match self {
            Running::Strict(writers) => {
                let counts: Vec<Vec<u64>> = writers.iter_mut().map(Writer::stop).collect();
                let fresh = forget(site);
                for (writer, mount) in writers.iter_mut().zip(mounts) {
                    writer.verify(mount);
                    writer.verify(&fresh);
                }
                assert_shared(&fresh, &counts);
                Counts { operations: counts.iter().flatten().sum(), ..Counts::default() }
            }
            Running::Honest(..) => {
                self.order("pause");
                let fresh = forget(site);
                self.compare("check", &[fresh]);
                let Running::Honest(_, counts) = self else { unreachable!("it was one") };
                let mut sum = Counts::default();
                counts.iter().for_each(|each| sum.add(*each));
                sum
            }
            Running::Program(program) => {
                let compared = program.take().map(Program::finish).unwrap_or_default();
                Counts { operations: compared, ..Counts::default() }
            }
        }
    }
}

/// Ends all storage nodes and starts them again; where a new mount is.
fn forget(site: &mut Site) -> PathBuf {
    site.storage.iter_mut().for_each(|node| node.kill());
    site.storage.iter_mut().for_each(|node| node.start());
    let fresh = site.add_mount();
    site.mountpoint(fresh)
}
