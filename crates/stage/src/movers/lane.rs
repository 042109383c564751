//! A thread of the coordinator that works through a mover: it takes from the stage's queue what the others take, and
//! has it copied on the mover's host.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wire::mover::{Answer, Known, Order, Part};

use super::link::Link;
use super::{as_hand, record};
use crate::batch;
use crate::blocks::Unit;
use crate::context::Context;
use crate::monitor::Tally;
use crate::transfer::{Copier, NotDone, Transfer};
use crate::tree::Found;
use crate::verify;

/// One of several lanes to a mover.
pub(crate) struct Lane {
    pub(super) link: Arc<Link>,
}

impl Lane {
    pub(super) fn new(link: Arc<Link>) -> Arc<Lane> {
        Arc::new(Lane { link })
    }

    /// Works until the stage has nothing more to do.
    pub(super) fn work(self: &Arc<Lane>, context: &Arc<Context>) {
        context.run.queue.work(&as_hand(self), |first| {
            if self.link.is_usable() && batch::takes(context, &first, &batch::ORDER) {
                super::batch::stage(context, &self.link, first);
            } else {
                batch::stage(context, first);
            }
        });
    }

    fn order(&self, context: &Context, file: &Transfer, order: &Order) -> Result<Vec<u32>, NotDone> {
        if !self.link.is_usable() {
            return Err(NotDone::Hand);
        }
        match self.link.order(context, file.name(), order) {
            Some(Answer::Sums(sums)) => Ok(sums),
            Some(Answer::Failed(fault)) => Err(NotDone::Fault(record::fault(fault))),
            Some(Answer::Foreign(why)) => {
                self.link.give_up(context, &why);
                Err(NotDone::Hand)
            }
            Some(_) | None => {
                self.link.give_up(context, "its mover ended; what it was at is copied by others");
                Err(NotDone::Hand)
            }
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
        verify::pace(context, file.target.tree.side(), length);
        let sums = self.order(context, file, &Order::ReadBack(part(file, unit)))?;
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

/// What a mover recognises an entry by.
pub(super) fn known(entry: &Found) -> Known {
    Known { path: bytes(&entry.path), attr: entry.attr }
}

pub(super) fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn path(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}
