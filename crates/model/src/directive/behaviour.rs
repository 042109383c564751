//! How a job's own buffer behaves: options of jobdw that are kept with the buffer as they are.

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
