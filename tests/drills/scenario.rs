//! The words in which a drill is told: where it runs, what works there, and what happens to it.

use tests::site::Plan;

/// A drill.
pub struct Scenario {
    /// A sentence that is true when it is survived.
    pub name: &'static str,
    /// The nodes and mounts.
    pub plan: Plan,
    /// Whether each storage node's part of the buffer is on the next one as well.
    pub mirrored: bool,
    /// What the storage nodes' folders lie on.
    pub disks: Disks,
    /// What works meanwhile.
    pub load: Load,
    /// What happens; each round one of these, by chance.
    pub faults: &'static [Fault],
    /// Rounds in the short run.
    pub short: u64,
    /// Rounds of a long run, percent of what was asked for.
    pub share: u64,
}

/// What storage nodes keep their fragments on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    /// The machine's folder for temporary files.
    Shared,
    /// A disk with XFS for each.
    Xfs,
    /// A disk with ext4 for each.
    Ext4,
}

/// What works in the mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// `crash-writer load` in each: no call may fail, and nothing that was answered may be lost.
    Strict,
    /// `crash-writer honest` in each: calls may fail during a fault, and then say so.
    Honest,
    /// A program, by its script in `programs/`, in the first mount.
    Program(&'static str),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`, and it is started again.
    Kill(Victim),
    /// SIGSTOP, and after a moment SIGCONT.
    Freeze(Victim),
    /// A storage node is stopped as a service is, and started again.
    Restart,
    /// One storage node's power fails, and comes back.
    PowerLossOfOne,
    /// The power of all storage nodes fails at once, and comes back.
    PowerLossOfAll,
    /// These calls of a storage node fail with this error, every third of them; afterwards it is started again.
    CallsFail(&'static str, &'static str),
    /// A storage node's disk is full for a while.
    DiskFull,
    /// A storage node's disk can only be read from some moment on; afterwards it is mounted anew.
    ReadOnly,
    /// A bit of an object is wrong, on a node that does not run; it is right again later.
    BitFlip,
    /// The connections to a storage node break, and for a moment there are no new ones.
    LinkCut,
    /// What is on its way to and from a storage node stays there for a moment.
    LinkHeld,
    /// For a moment the link of a storage node carries 1 MiB a second.
    LinkSlow,
    /// A storage node gets no more file descriptors for a while.
    NoDescriptors,
    /// A storage node gets no more memory for a while; it is started again if it ended.
    NoMemory,
}

/// Whose process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// A storage node.
    Storage,
    /// The storage node that keeps the names.
    Home,
    /// All storage nodes.
    AllStorage,
    /// The process of a mount.
    Mount,
    /// The node that supervises a mount.
    Supervisor,
}

impl Fault {
    /// What is counted.
    pub fn kind(self) -> &'static str {
        match self {
            Fault::Kill(_) => "kills",
            Fault::Freeze(_) => "freezes",
            Fault::Restart => "restarts",
            Fault::PowerLossOfOne => "power losses of one node",
            Fault::PowerLossOfAll => "power losses of all nodes",
            Fault::CallsFail(..) => "failing calls",
            Fault::DiskFull => "full disks",
            Fault::ReadOnly => "read-only disks",
            Fault::BitFlip => "flipped bits",
            Fault::LinkCut => "cut links",
            Fault::LinkHeld => "held links",
            Fault::LinkSlow => "slow links",
            Fault::NoDescriptors => "descriptors exhausted",
            Fault::NoMemory => "memory exhausted",
        }
    }

    /// What the honest writers are told before: whether what was not confirmed may be lost.
    pub fn loses_unconfirmed(self) -> bool {
        matches!(self, Fault::PowerLossOfOne | Fault::PowerLossOfAll | Fault::ReadOnly)
    }

    /// Whether calls of programs may fail for it.
    pub fn fails_calls(self) -> bool {
        self.loses_unconfirmed()
            || matches!(self, Fault::CallsFail(..) | Fault::DiskFull | Fault::NoDescriptors | Fault::NoMemory)
    }

    /// Whether it is done through the relays between mounts and storage nodes.
    pub fn is_of_links(self) -> bool {
        matches!(self, Fault::LinkCut | Fault::LinkHeld | Fault::LinkSlow)
    }
}
