//! One regular file from where it is to where it is made, by all workers: units of blocks are copied and read back on
//! this host, or by movers on the hosts of other storage nodes.
//!
//! **Invariant:** a unit that a mover has copied is on stable storage when it says so: a mover that is lost loses
//! nothing that was noted. A file that one has open for writing which may come back gets no name.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use model::FragmentIndex;

use crate::blocks::{self, Sums, UNIT_BYTES, Unit};
use crate::content;
use crate::copier::{Copier, NotDone, Transfer};
use crate::fault::{Cause, Fault, Tried};
use crate::monitor::Tally;
use crate::run::Run;
use crate::verify;

impl Transfer {
    /// Copies all blocks but those that are there already, which are given with their checksums. Those that this host
    /// has copied are not synced yet.
    pub(crate) fn copy(
        self: &Arc<Transfer>,
        run: &Arc<Run>,
        there: &BTreeMap<usize, u32>,
        tally: &Arc<Tally>,
    ) -> Result<Sums, Fault> {
        let target = &self.target;
        if self.source.sparse {
            target.file.set_size(self.size).tried(&*target.tree, &target.path, "set the size of")?;
        }
        let mut sums = Sums::new(self.size, &self.data);
        let with_data: u64 = self.data.iter().map(|run| blocks::length(run, self.size)).sum();
        tally.copied(self.size - with_data);
        for (block, sum) in there {
            tally.copied(blocks::length(&(*block..block + 1), self.size));
            sums.set(std::iter::once(*block), &[*sum]);
        }
        let (file, shared, counted) = (self.clone(), run.clone(), tally.clone());
        let copied =
            each(run, self.units(&self.data, |block| !there.contains_key(&block)), move |unit, host| {
                let copied = by(host, &shared, &file, |host| host.copy(&shared, &file, unit, &counted))?;
                shared.monitor.moved(unit.length(file.size));
                if file.size > UNIT_BYTES {
                    shared.journal.blocks(&file.target.path, unit.blocks(), &copied);
                }
                Ok(copied)
            })?;
        for (unit, found) in copied {
            sums.set(unit.blocks(), &found);
        }
        Ok(sums)
    }

    /// Reads the chosen blocks back and compares them with what was written; holes of both sides are the same.
    pub(crate) fn read_back(
        self: &Arc<Transfer>,
        run: &Arc<Run>,
        written: &Sums,
        chosen: impl Fn(usize) -> bool,
        tally: &Arc<Tally>,
    ) -> Result<(), Fault> {
        let (file, shared, counted) = (self.clone(), run.clone(), tally.clone());
        let expected = written.clone();
        // A hole of the source may have got data there.
        let data = blocks::union(&self.data, &content::data(run, &self.target, self.size)?);
        let units = self.units(&data, chosen);
        let read: u64 = units.iter().map(|unit| unit.length(self.size)).sum();
        tally.verified(verify::bytes(run.policy.verify, self.size).saturating_sub(read));
        let compared = each(run, units, move |unit, host| {
            let found = by(host, &shared, &file, |host| host.read_back(&shared, &file, unit, &counted))?;
            for (block, found) in unit.blocks().zip(found) {
                let expected = expected.of(block);
                if found != expected {
                    let cause = Cause::Differs { expected, found };
                    return Err(Fault::new(&*file.target.tree, &file.target.path, "verify", cause));
                }
            }
            Ok(Vec::new())
        });
        compared.map(drop)
    }

    fn units(&self, data: &[Range<usize>], wanted: impl Fn(usize) -> bool) -> Vec<Unit> {
        match &self.spread {
            Some((layout, ino)) => blocks::by_fragments(data, layout, *ino, wanted),
            None => blocks::by_chunks(data, wanted),
        }
    }
}

/// Works on a host; on this one if that is lost.
fn by(
    host: &Arc<dyn Copier>,
    run: &Run,
    file: &Transfer,
    work: impl Fn(&dyn Copier) -> Result<Vec<u32>, NotDone>,
) -> Result<Vec<u32>, Fault> {
    match work(&**host) {
        Ok(sums) => Ok(sums),
        Err(NotDone::Fault(fault)) => Err(fault),
        Err(NotDone::HostMayWrite) => {
            Err(Fault::new(&*file.target.tree, file.name(), "copy on another storage node", Cause::Abandoned))
        }
        Err(NotDone::HostLost) => match work(&*run.here) {
            Ok(sums) => Ok(sums),
            Err(NotDone::Fault(fault)) => Err(fault),
            Err(NotDone::HostLost | NotDone::HostMayWrite) => unreachable!("this host is never lost"),
        },
    }
}

type Done = Vec<(Unit, Vec<u32>)>;

/// Runs `work` on every unit. The first fault keeps the units that are not begun from being worked on in vain.
fn each(
    run: &Arc<Run>,
    units: Vec<Unit>,
    work: impl Fn(&Unit, &Arc<dyn Copier>) -> Result<Vec<u32>, Fault> + Send + Sync + 'static,
) -> Result<Done, Fault> {
    if units.len() <= 1 {
        let done = |unit: Unit| work(&unit, &run.here).map(|sums| (unit, sums));
        return units.into_iter().map(done).collect();
    }
    let results = Arc::new(Mutex::new(Ok(Done::with_capacity(units.len()))));
    let shared = results.clone();
    let homes: Vec<Option<FragmentIndex>> = units.iter().map(|unit| unit.home).collect();
    run.queue.share(homes.into_iter(), &run.here, move |number, host| {
        if shared.lock().expect("no thread panics with the lock").is_err() {
            return;
        }
        let outcome = work(&units[number], host);
        let mut results = shared.lock().expect("no thread panics with the lock");
        match (outcome, &mut *results) {
            (Ok(sums), Ok(done)) => done.push((units[number].clone(), sums)),
            (Err(fault), Ok(_)) => *results = Err(fault),
            (_, Err(_)) => {}
        }
    });
    std::mem::replace(&mut *results.lock().expect("no thread panics with the lock"), Ok(Done::new()))
}
