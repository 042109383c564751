//! One regular file from where it is to where it is made, by all hands: units of blocks are copied and read back on
//! this host, or by movers on the hosts of other storage nodes.
//!
//! **Invariant:** a unit that a mover has copied is on stable storage when it says so: a mover that is lost loses
//! nothing that was noted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use model::stripe::Layout;

use crate::blocks::{self, Sums, UNIT_BYTES, Unit};
use crate::content::{self, Opened};
use crate::context::Context;
use crate::fault::{Cause, Fault, Tried};
use crate::monitor::Tally;
use crate::queue::Hand;
use crate::tree::Found;
use crate::verify;

/// A file that is being copied.
pub(crate) struct Transfer {
    pub(crate) size: u64,
    pub(crate) source: Opened,
    /// The source as it was when it was opened.
    pub(crate) found: Found,
    pub(crate) target: Opened,
    /// The target under its working name.
    pub(crate) made: Found,
    /// How the buffer's side of it is spread over storage nodes that copy, and its inode there; `None`: one host
    /// copies.
    pub(crate) spread: Option<(Layout, u64)>,
}

/// Why a unit was not done.
pub(crate) enum NotDone {
    /// What is wrong with the file.
    Fault(Fault),
    /// Nothing is: the hand is lost, or does not see the file.
    Hand,
}

/// What copies.
pub(crate) trait Copier: Hand {
    /// Copies a unit; gives the checksums of its blocks.
    fn copy(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone>;

    /// Reads a unit back from the target; gives the checksums of its blocks.
    fn read_back(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone>;
}

/// This host.
pub(crate) struct Here {
    /// The fragment that is on it.
    pub(crate) fragment: Option<u32>,
}

impl Hand for Here {
    fn fragment(&self) -> Option<u32> {
        self.fragment
    }
}

impl Copier for Here {
    fn copy(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone> {
        let moved = |piece: &content::Piece<'_>| {
            if matches!(piece, content::Piece::Data(..)) {
                context.pace_here(piece.length());
            }
            tally.copied(piece.length());
        };
        let copied = content::copy(context, &file.source, &file.target, file.size, &unit.runs, moved);
        if file.size > UNIT_BYTES {
            // The device is at work while the rest is copied.
            let runs = unit.runs.iter().map(|run| blocks::bytes(run, file.size));
            runs.for_each(|range| file.target.file.begin_sync(range));
        }
        copied.map_err(NotDone::Fault)
    }

    fn read_back(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone> {
        let read = content::read(context, &file.target, file.size, &unit.runs, |piece| {
            verify::pace_here(context, file.target.tree.side(), piece.length());
            tally.verified(piece.length());
            Ok(())
        });
        read.map_err(NotDone::Fault)
    }
}

impl Transfer {
    /// Copies all blocks but those that are there already, which are given with their checksums. Those that this host
    /// has copied are not synced yet.
    pub(crate) fn copy(
        self: &Arc<Transfer>,
        context: &Arc<Context>,
        there: &BTreeMap<usize, u32>,
        tally: &Arc<Tally>,
    ) -> Result<Sums, Fault> {
        let target = &self.target;
        if self.source.sparse {
            target.file.set_size(self.size).tried(&*target.tree, &target.path, "set the size of")?;
        }
        let mut sums = Sums::new(self.size);
        for (block, sum) in there {
            let range = blocks::bytes(&(*block..block + 1), self.size);
            tally.copied(range.end - range.start);
            sums.set(std::iter::once(*block), &[*sum]);
        }
        let (file, shared, counted) = (self.clone(), context.clone(), tally.clone());
        let copied = each(context, self.units(|block| !there.contains_key(&block)), move |unit, hand| {
            let copied = by(hand, &shared, |hand| hand.copy(&shared, &file, unit, &counted))?;
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

    /// Reads the chosen blocks back and compares them with what was written.
    pub(crate) fn read_back(
        self: &Arc<Transfer>,
        context: &Arc<Context>,
        written: &Sums,
        chosen: impl Fn(usize) -> bool,
        tally: &Arc<Tally>,
    ) -> Result<(), Fault> {
        let (file, shared, counted) = (self.clone(), context.clone(), tally.clone());
        let expected = written.clone();
        let compared = each(context, self.units(chosen), move |unit, hand| {
            let found = by(hand, &shared, |hand| hand.read_back(&shared, &file, unit, &counted))?;
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

    /// The path that the file is to have; faults name it.
    pub(crate) fn name(&self) -> &Path {
        &self.target.path
    }

    fn units(&self, wanted: impl Fn(usize) -> bool) -> Vec<Unit> {
        match &self.spread {
            Some((layout, ino)) => blocks::by_fragments(self.size, layout, *ino, wanted),
            None => blocks::by_chunks(self.size, wanted),
        }
    }
}

/// Works with a hand; with this host's own if that is lost.
fn by(
    hand: &Arc<dyn Copier>,
    context: &Context,
    work: impl Fn(&dyn Copier) -> Result<Vec<u32>, NotDone>,
) -> Result<Vec<u32>, Fault> {
    match work(&**hand) {
        Ok(sums) => Ok(sums),
        Err(NotDone::Fault(fault)) => Err(fault),
        Err(NotDone::Hand) => match work(&*context.run.here) {
            Ok(sums) => Ok(sums),
            Err(NotDone::Fault(fault)) => Err(fault),
            Err(NotDone::Hand) => unreachable!("this host's own hand is never lost"),
        },
    }
}

type Done = Vec<(Unit, Vec<u32>)>;

/// Runs `work` on every unit. The first fault keeps the units that are not begun from being worked on in vain.
fn each(
    context: &Arc<Context>,
    units: Vec<Unit>,
    work: impl Fn(&Unit, &Arc<dyn Copier>) -> Result<Vec<u32>, Fault> + Send + Sync + 'static,
) -> Result<Done, Fault> {
    if units.len() <= 1 {
        let done = |unit: Unit| work(&unit, &context.run.here).map(|sums| (unit, sums));
        return units.into_iter().map(done).collect();
    }
    let results = Arc::new(Mutex::new(Ok(Done::with_capacity(units.len()))));
    let shared = results.clone();
    let homes: Vec<Option<u32>> = units.iter().map(|unit| unit.home).collect();
    context.run.queue.share(homes.into_iter(), &context.run.here, move |number, hand| {
        if shared.lock().expect("no thread panics with the lock").is_err() {
            return;
        }
        let outcome = work(&units[number], hand);
        let mut results = shared.lock().expect("no thread panics with the lock");
        match (outcome, &mut *results) {
            (Ok(sums), Ok(done)) => done.push((units[number].clone(), sums)),
            (Err(fault), Ok(_)) => *results = Err(fault),
            (_, Err(_)) => {}
        }
    });
    std::mem::replace(&mut *results.lock().expect("no thread panics with the lock"), Ok(Done::new()))
}
