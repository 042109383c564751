//! A thread of the coordinator that works through a mover: it takes from the stage's queue what the others take, and
//! has it copied on the mover's host.

use std::sync::Arc;

use wire::mover::{Answer, Order, Part};

use super::as_host;
use super::link::{Link, Lost};
use super::probe;
use super::record::{self, bytes, known};
use crate::batch;
use crate::blocks::Unit;
use crate::context::Context;
use crate::copier::{Copier, NotDone, Transfer};
use crate::fault::Cause;
use crate::monitor::Tally;
use crate::run::Run;

/// One of several lanes to a mover.
pub(crate) struct Lane {
    pub(super) link: Arc<Link>,
}

impl Lane {
    pub(super) fn new(link: Arc<Link>) -> Arc<Lane> {
        Arc::new(Lane { link })
    }

    /// Works until the stage has nothing more to do.
    pub(super) fn work(self: &Arc<Lane>, run: &Arc<Run>) {
        run.queue.work(&as_host(self), |first| {
            if self.link.is_usable() && batch::takes(run, &first, &batch::ORDER) {
                super::batch::stage(run, &self.link, first);
            } else {
                batch::stage(run, first);
            }
        });
    }

    fn order(&self, context: &Context, file: &Transfer, order: &Order) -> Result<Vec<u32>, NotDone> {
        if !self.link.is_usable() {
            return Err(NotDone::HostLost);
        }
        match self.link.order(context, file.name(), order, || probe::pfs(context, &file.found, file.name())) {
            Ok(Answer::Sums(sums)) => Ok(sums),
            Ok(Answer::Failed(fault)) => match record::fault(fault) {
                // It stops: it was not heard for long, or is about to end.
                stopped if stopped.cause == Cause::Stopped => Err(NotDone::HostLost),
                fault => Err(NotDone::Fault(fault)),
            },
            Ok(Answer::Foreign(why)) => {
                self.link.give_up(context, &why);
                Err(NotDone::HostLost)
            }
            Ok(_) => {
                self.link.give_up(context, "its mover does not understand what it is to do");
                Err(NotDone::HostLost)
            }
            Err(Lost::Ended) => Err(NotDone::HostLost),
            Err(Lost::MayGoOn) => Err(NotDone::HostMayWrite),
        }
    }
}

impl Copier for Lane {
    fn copy(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone> {
        let length = unit.length(file.size);
        context.pace(length);
        let sums = self.order(context, file, &Order::Copy(part(file, unit)))?;
        tally.copied(length);
        context.monitor.helped(&self.link.node, length);
        Ok(sums)
    }

    fn read_back(
        &self,
        context: &Context,
        file: &Transfer,
        unit: &Unit,
        tally: &Tally,
    ) -> Result<Vec<u32>, NotDone> {
        let length = unit.length(file.size);
        context.pace_reading(file.target.tree.side(), length);
        let read = self.order(context, file, &Order::ReadBack(part(file, unit)));
        let sums = read.map_err(|lost| match lost {
            NotDone::HostMayWrite => NotDone::HostLost,
            lost => lost,
        })?;
        tally.verified(length);
        Ok(sums)
    }
}

fn part(file: &Transfer, unit: &Unit) -> Part {
    let number = |block: usize| u64::try_from(block).expect("an index fits 64 bits");
    Part {
        source: known(&file.found),
        made: known(&file.made),
        target: bytes(file.name()),
        sparse: file.source.sparse,
        runs: unit.runs.iter().map(|run| (number(run.start), number(run.end))).collect(),
    }
}
