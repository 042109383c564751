//! How a job's own buffer behaves: options of jobdw that are kept with the buffer as they are, and what of them its
//! fragments and mounts are told.

use serde::{Deserialize, Serialize};

use super::options::Options;
use super::values::{coherence, drain, redundancy};
use crate::phase::{Coherence, Drain, Redundancy};

/// Their names.
pub(super) const OPTIONS: [&str; 3] = ["coherence", "drain", "redundancy"];

/// What a buffer promises. Databases have it as JSON: an option that lacks there was not known yet, and one that is not
/// known here is an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Behaviour {
    /// When nodes see what others wrote.
    pub coherence: Coherence,
    /// On how many nodes the bytes of files are.
    pub redundancy: Redundancy,
    /// Whether files are drained while the job runs.
    pub drain: Option<Drain>,
}

/// What a fragment is told of it: fields of its specification, as they are sent and as a node keeps them. Nobody else
/// names all of them, so that another concerns who acts on it alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FragmentBehaviour {
    /// Each fragment's objects are kept by the next fragment's node as well.
    pub mirrored: bool,
}

/// What a mount is told of it, likewise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MountBehaviour {
    /// When other clients must see what is written here.
    pub coherence: Coherence,
}

impl Behaviour {
    /// What its fragments are told.
    pub fn of_fragments(&self) -> FragmentBehaviour {
        FragmentBehaviour { mirrored: self.redundancy == Redundancy::Mirror }
    }

    /// What its mounts are told.
    pub fn of_mounts(&self) -> MountBehaviour {
        MountBehaviour { coherence: self.coherence }
    }
}

/// What the options say; `None` where one is wrong, which they note.
pub(super) fn behaviour(options: &mut Options) -> Option<Behaviour> {
    let coherence = match options.get("coherence") {
        Some(word) => options.note(&word, coherence(&word.text)),
        None => Some(Coherence::default()),
    };
    let redundancy = match options.get("redundancy") {
        Some(word) => options.note(&word, redundancy(&word.text)),
        None => Some(Redundancy::default()),
    };
    let drain = match options.get("drain") {
        Some(word) => options.note(&word, drain(&word.text)).map(Some),
        None => Some(None),
    };
    Some(Behaviour { coherence: coherence?, redundancy: redundancy?, drain: drain? })
}
