//! What copies units of a file: this host itself, or the lane to a mover on another ([`crate::movers`]).

use std::ops::Range;
use std::path::Path;

use model::stripe::Layout;
use model::{FragmentIndex, Ino};

use crate::blocks::{self, UNIT_BYTES, Unit};
use crate::content::{self, Opened};
use crate::context::Context;
use crate::fault::Fault;
use crate::monitor::Tally;
use crate::queue::Host;
use crate::tree::{Found, TargetFile};

/// A file that is being copied.
pub(crate) struct Transfer {
    pub(crate) size: u64,
    pub(crate) source: Opened,
    /// The blocks of the source that have data, as runs in order: others are neither copied nor noted.
    pub(crate) data: Vec<Range<usize>>,
    /// The source as it was when it was opened.
    pub(crate) found: Found,
    pub(crate) target: Opened<dyn TargetFile>,
    /// The target under its working name.
    pub(crate) made: Found,
    /// How the buffer's side of it is spread over storage nodes that copy, and its inode there; `None`: one host
    /// copies.
    pub(crate) spread: Option<(Layout, Ino)>,
}

impl Transfer {
    /// The path that the file is to have; faults name it.
    pub(crate) fn name(&self) -> &Path {
        &self.target.path
    }
}

/// Why a unit was not done.
pub(crate) enum NotDone {
    /// What is wrong with the file.
    Fault(Fault),
    /// Nothing is: the host is lost, or does not see the file.
    HostLost,
    /// Nothing is: the host hangs, and may write into the file when it comes back.
    HostMayWrite,
}

/// What copies.
pub(crate) trait Copier: Host {
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
    pub(crate) fragment: Option<FragmentIndex>,
}

impl Host for Here {
    fn fragment(&self) -> Option<FragmentIndex> {
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
            if matches!(piece, content::Piece::Data(..)) {
                context.pace_reading_here(file.target.tree.side(), piece.length());
            }
            tally.verified(piece.length());
            Ok(())
        });
        read.map_err(NotDone::Fault)
    }
}
