//! How often a fragment has found its mirror, as both of them note it durably: one that comes with less than the other
//! knows of was replaced by an older copy of itself, as when a backup of its folder was put back.
//!
//! ```text
//! FRAGMENT/mirrored/0/meetings.json    begun: before the mirror hears of it; confirmed: once the mirror has noted it
//! ```
//!
//! The mirror's number ([`crate::replica`]) is between the two, whoever dies in between.
//!
//! **Invariant:** no number is used for two meetings, and nothing is changed on either node before both have noted it.

use std::io;
use std::path::{Path, PathBuf};

use disk::format::{self, FormatError};
use serde::{Deserialize, Serialize};

use crate::formats;

/// The numbers of one namespace's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meetings {
    begun: u64,
    confirmed: u64,
}

/// How a fragment stands to its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Neither is older than it was when they met last.
    Same,
    /// The mirror is.
    MirrorOlder,
    /// The fragment is.
    Older,
    /// The fragment may be: it has no numbers, and there should be some.
    Unknown,
}

/// Their file, in the folder of the mirror's notes.
pub const NAME: &str = "meetings.json";

/// Where they are, in the fragment below `folder`.
pub fn path_of(folder: &Path, namespace: u32) -> PathBuf {
    folder.join("mirrored").join(namespace.to_string()).join(NAME)
}

/// Makes those of a fragment that never met its mirror.
///
/// # Errors
/// The file system's.
pub fn create(path: &Path) -> io::Result<()> {
    if disk::exists(path)? { Ok(()) } else { Meetings::default().begin_note(path) }
}

/// Those that are noted at `path`; `None` where there are none.
///
/// # Errors
/// They cannot be read, are damaged, or a newer Forebay wrote them.
pub fn read(path: &Path) -> io::Result<Option<Meetings>> {
    let damaged = |error: FormatError| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("cannot understand {}: {error}", path.display()))
    };
    disk::read(path)?.map(|text| format::decode(&text, formats::MIRROR).map_err(damaged)).transpose()
}

/// How the fragment that has noted `own` stands to a mirror that has heard of meeting `heard`.
pub fn compare(own: Option<Meetings>, heard: u64) -> Order {
    match own {
        None if heard > 0 => Order::Unknown,
        Some(own) if heard > own.begun => Order::Older,
        Some(own) if heard < own.confirmed => Order::MirrorOlder,
        _ => Order::Same,
    }
}

impl Meetings {
    /// Both know of all up to `number`.
    pub fn up_to(number: u64) -> Meetings {
        Meetings { begun: number, confirmed: number }
    }

    /// The next is begun: its number.
    pub fn begin(self) -> (u64, Meetings) {
        let number = self.begun + 1;
        (number, Meetings { begun: number, ..self })
    }

    /// The same in a fragment that has no folder for it yet.
    ///
    /// # Errors
    /// The file system's.
    pub fn begin_note(self, path: &Path) -> io::Result<()> {
        let folders: Vec<&Path> = path.ancestors().skip(1).take(2).collect();
        folders.into_iter().rev().try_for_each(disk::make_folder)?;
        self.note(path)
    }

    /// Notes them durably at `path`.
    ///
    /// # Errors
    /// The file system's.
    pub fn note(self, path: &Path) -> io::Result<()> {
        disk::replace(path, &format::encode(&self, formats::MIRROR)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_was_replaced_by_an_older_copy_is_known_and_who_died_meanwhile_is_not_taken_for_one() {
        let (mut own, mut heard, mut kept) = (Meetings::default(), 0, Vec::new());
        for _ in 0..3 {
            kept.push((own, heard));
            let (number, begun) = own.begin();
            // Either may die before the other has heard.
            assert_eq!(
                (compare(Some(begun), heard), compare(Some(begun), number)),
                (Order::Same, Order::Same)
            );
            (own, heard) = (Meetings::up_to(number), number);
            for (old, then) in &kept {
                assert_eq!(compare(Some(*old), heard), Order::Older);
                assert_eq!(compare(Some(own), *then), Order::MirrorOlder);
            }
        }
        assert_eq!((compare(None, 0), compare(None, 1)), (Order::Same, Order::Unknown));
    }
}
