//! A metadata log that is lost, or may be: what the node with its copy says of it, and that copy in its place.
//!
//! Owns no decision when that is tried; [`super`] does.
//!
//! **Invariant:** nothing is changed here before the other node has given all that is needed.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::alone;
use crate::fragment::{FragmentError, folders};
use crate::link::Place;
use crate::log_folder::Folder;
use crate::shard::log::mark::Mark;
use crate::shard::log::{self, LogError, restore};

/// How long each answer of the other node may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// A namespace's metadata, and where its copy is.
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) place: Place,
    /// The copy takes the place of the log also where it may lack what was confirmed.
    pub(super) is_accepted: bool,
}

/// Why a copy does not take the place of a log that is lost.
pub(super) enum Unfit {
    /// It may later: the other node does not answer, or the disk here is in trouble.
    Yet(FragmentError),
    Never(FragmentError),
}

/// The same, in words.
enum Why {
    Yet(String),
    Never(String),
}

/// A log that is lost, and its copy.
pub(super) struct Fetched<'a> {
    home: &'a Home,
    lost: LogError,
    /// The other node knows that the log was synced up to this entry.
    confirmed: u64,
    bytes: Vec<u8>,
}

impl Home {
    /// Notes beside the log how far it was synced, for all that the other node knows.
    pub(super) fn ask(&self, folder: &dyn Folder) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("node {}: {error}", self.place.node());
        let is_alone = alone::is_alone(folder).map_err(|error| failed(&error))?;
        if is_alone || restore::is_accepted(folder).map_err(|error| failed(&error))? {
            // It knows less than this node, or of what is given up.
            return Ok(());
        }
        let mut link = self.place.reach(ANSWER_WITHIN).map_err(|error| failed(&error))?;
        let found = link.find().map_err(|error| failed(&error))?;
        Mark::raise(folder, found.confirmed).map_err(|error| failed(&error))
    }

    /// Has the copy of a log that is lost so.
    pub(super) fn fetch(&self, lost: LogError) -> Result<Fetched<'_>, Unfit> {
        if !restore::is_lost(&lost) {
            return Err(Unfit::Never(lost.into()));
        }
        match self.ask_for_copy() {
            Ok((confirmed, bytes)) => Ok(Fetched { home: self, lost, confirmed, bytes }),
            Err(why) => Err(self.unfit(lost, why)),
        }
    }

    /// The copy, and up to which entry the other node knows the log to have been synced.
    fn ask_for_copy(&self) -> Result<(u64, Vec<u8>), Why> {
        let alone = match log::folder(&self.path) {
            Err(error) if restore::is_lost(&error) => Ok(false),
            Err(error) => Err(io::Error::other(error)),
            Ok(folder) => alone::is_alone(&*folder),
        };
        if alone.map_err(|error| Why::Yet(format!("cannot check whether it may: {error}")))? {
            let why = "this node has confirmed changes while that one was away, which it lacks";
            return Err(Why::Never(why.to_owned()));
        }
        let failed =
            |error: &dyn std::fmt::Display| Why::Yet(format!("{error}; it is asked again until it answers"));
        let mut link = self.place.reach(ANSWER_WITHIN).map_err(|error| failed(&error))?;
        let found = link.find().map_err(|error| failed(&error))?;
        let bytes = link.read(found.length).map_err(|error| failed(&error))?;
        match bytes.len() as u64 {
            0 if found.length == 0 => Err(Why::Never("it has none".to_owned())),
            len if len < found.length => Err(failed(&format!("it gave {len} of {} bytes", found.length))),
            _ if self.is_accepted => Ok((0, bytes)),
            _ => Ok((found.confirmed, bytes)),
        }
    }

    fn unfit(&self, lost: LogError, why: Why) -> Unfit {
        let node = self.place.node().to_owned();
        match why {
            Why::Yet(why) => Unfit::Yet(FragmentError::Copy { lost, node, why, asked_again: true }),
            Why::Never(why) => Unfit::Never(FragmentError::Copy { lost, node, why, asked_again: false }),
        }
    }
}

impl Fetched<'_> {
    /// Puts the copy in the place of the log.
    pub(super) fn take_place(self) -> Result<(), Unfit> {
        let (home, lost) = (self.home, self.lost);
        let folder = match log::folder(&home.path) {
            Ok(folder) => folder,
            Err(_) => {
                folders::make(&home.path).and_then(|()| Ok(log::folder(&home.path)?)).map_err(Unfit::Yet)?
            }
        };
        let node = home.place.node();
        let origin = PathBuf::from(format!("on node {node}"));
        // First: nobody takes these names for all that were confirmed, also after a restart.
        let accepted = if home.is_accepted { restore::note_accepted(&*folder) } else { Ok(()) };
        // The mark before the log: a copy that lacks what it speaks of is refused.
        let put = accepted
            .and_then(|()| Mark::raise(&*folder, self.confirmed))
            .map_err(|error| Why::Yet(format!("cannot note how far it goes: {error}; it is tried again")))
            .map(|()| restore::put(&*folder, &self.bytes, &origin));
        let put = match put {
            // The log is in the copy, for the Forebay that wrote it.
            Ok(Err(newer @ LogError::Newer { .. })) => return Err(Unfit::Never(newer.into())),
            put => put.and_then(|put| put.map_err(why_not)),
        };
        match put {
            Ok(entries) => {
                tracing::warn!(
                    path = %home.path.display(),
                    %lost,
                    ?node,
                    entries,
                    "the metadata log was lost: its second copy has taken its place"
                );
                Ok(())
            }
            Err(why) => Err(home.unfit(lost, why)),
        }
    }
}

/// A copy that is damaged stays so; a disk may get well.
fn why_not(error: LogError) -> Why {
    match error {
        LogError::Io { .. } => Why::Yet(format!("{error}; it is tried again")),
        damaged => Why::Never(damaged.to_string()),
    }
}
