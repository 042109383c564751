//! Who else uses a namespace, and what follows from that for who uses it through this client: one state, and all that
//! depends on it.
//!
//! ```text
//! Exclusive ── a stage on demand is about to begin (PUT /v1/mounts/ID/shared) ──> Demoted          Shared
//! ```
//!
//! A mount begins with what its specification says, or as `Demoted` where a process of it was told before.
//!
//! | | `Exclusive` | `Demoted` | `Shared` |
//! |---|---|---|---|
//! | who else | nobody | stages: they change names, and make new files | anybody |
//! | names and attributes | kept, and not asked for where they are known | asked for | asked for |
//! | who opens a file whose object the kernel can have | passed through | passed through | passed through |
//! | who else opens it for reading | cached | cached | direct |
//! | who else opens it for writing | direct | direct | direct |
//! | ends of files for appends, and locks | the kernel's | the kernel's | the storage nodes' |
//!
//! **Invariant:** nothing becomes `Exclusive` again, and what is `Shared` stays so.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

/// With no other client, what the kernel knows stays true: it made every change itself. Not for ever, so that a mistake
/// in that belief would heal.
const NAMES_KEPT: Duration = Duration::from_secs(60);

/// Who else uses a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sharing {
    /// Nobody: names and contents are this client's.
    Exclusive,
    /// Stages that were asked for meanwhile: only contents are this client's. Whoever comes so makes new files.
    Demoted,
    /// Other clients, from the beginning.
    Shared,
}

/// How the reads and writes of a handle go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Each one comes to the client.
    Direct,
    /// Through the kernel's pages: with its read-ahead, from memory when read again.
    Cached,
    /// The kernel has the object itself.
    PassedThrough,
}

/// Who opens a file that nobody has open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// Whether the kernel can have the object itself.
    pub has_object: bool,
    /// Whether it is opened for writing.
    pub writes: bool,
}

impl Sharing {
    /// How the handles of a file go, from the first, which is this opener's, until the last is closed.
    pub fn way(self, opener: Opener) -> Way {
        match opener {
            Opener { has_object: true, .. } => Way::PassedThrough,
            Opener { writes: false, .. } if self.owns_contents() => Way::Cached,
            _ => Way::Direct,
        }
    }

    /// Whether nobody else changes names and attributes.
    pub fn owns_names(self) -> bool {
        self == Sharing::Exclusive
    }

    /// How long names and attributes may be used without asking again.
    pub fn names_kept(self) -> Duration {
        if self.owns_names() { NAMES_KEPT } else { Duration::ZERO }
    }

    /// Whether nobody else reads, changes or locks what is in a file.
    pub fn owns_contents(self) -> bool {
        self != Sharing::Shared
    }
}

/// The state of one client.
#[derive(Debug)]
pub(crate) struct Present(AtomicU8);

impl Present {
    /// It begins with this.
    pub(crate) fn new(sharing: Sharing) -> Present {
        Present(AtomicU8::new(sharing as u8))
    }

    /// What it is now.
    pub(crate) fn get(&self) -> Sharing {
        let all = [Sharing::Exclusive, Sharing::Demoted, Sharing::Shared];
        all[usize::from(self.0.load(Ordering::Acquire))]
    }

    /// Stages come.
    pub(crate) fn demote(&self) {
        let (from, to) = (Sharing::Exclusive as u8, Sharing::Demoted as u8);
        // Where it was not exclusive it stays what it is.
        let _before = self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::Sharing::{Demoted, Exclusive, Shared};
    use super::Way::{Cached, Direct, PassedThrough};
    use super::*;

    #[test]
    fn what_an_opener_gets_is_as_the_table_says() {
        let opener = |has_object, writes| Opener { has_object, writes };
        let table = [
            (opener(true, false), [PassedThrough, PassedThrough, PassedThrough]),
            (opener(true, true), [PassedThrough, PassedThrough, PassedThrough]),
            (opener(false, false), [Cached, Cached, Direct]),
            (opener(false, true), [Direct, Direct, Direct]),
        ];
        for (opener, ways) in table {
            assert_eq!([Exclusive, Demoted, Shared].map(|sharing| sharing.way(opener)), ways, "{opener:?}");
        }
    }

    #[test]
    fn stages_take_the_names_and_only_other_clients_the_contents() {
        let owned =
            [Exclusive, Demoted, Shared].map(|sharing| (sharing.owns_names(), sharing.owns_contents()));
        assert_eq!(owned, [(true, true), (false, true), (false, false)]);
        let kept = [Exclusive, Demoted, Shared].map(|sharing| sharing.names_kept().as_secs());
        assert_eq!(kept, [60, 0, 0]);
    }

    #[test]
    fn a_stage_demotes_only_who_was_exclusive() {
        let demoted = [Exclusive, Demoted, Shared].map(|sharing| {
            let present = Present::new(sharing);
            present.demote();
            present.get()
        });
        assert_eq!(demoted, [Demoted, Demoted, Shared]);
    }
}
