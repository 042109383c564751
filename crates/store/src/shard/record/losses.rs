//! What the metadata log has of losses. Variants are only ever added at the end.

use model::{FragmentIndex, Ino, SessionId};
use serde::{Deserialize, Serialize};
use wire::data::Time;
use wire::data::message::LOSSES_MAX;

/// Files in one record.
pub const INOS_MAX: usize = LOSSES_MAX;

/// A change of what is known of losses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LossRecord {
    /// The fragment, which has had this verifier since, has lost writes to these files, at this time; numbered from
    /// `first`.
    Lost {
        first: u64,
        fragment: FragmentIndex,
        verifier: u64,
        #[serde(with = "kept::form")]
        time: Time,
        inos: Vec<Ino>,
        told: bool,
    },
    /// Somebody was told.
    Told { losses: Vec<ToldOf> },
    /// A session ended that had written to these files, or any, or had changed names, where the fragment had this
    /// verifier.
    Left { fragment: FragmentIndex, verifier: u64, inos: Vec<Ino>, any: bool, names: bool },
    /// All that was left there is synced, or known to be lost.
    Safe { fragment: FragmentIndex, verifier: u64 },
    /// The home is this fragment, and has this verifier.
    Serves { fragment: FragmentIndex, verifier: u64 },
    /// The session has told all that the fragment lost of it when it got this verifier.
    Heard { session: SessionId, fragment: FragmentIndex, verifier: u64 },
    /// Everything that the session wrote was confirmed.
    Quiet { session: SessionId },
    /// It may write again.
    Busy { session: SessionId },
}

/// Which loss, on disk: the wire's type and the disk's evolve apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToldOf {
    pub ino: Ino,
    pub fragment: FragmentIndex,
    pub verifier: u64,
}

impl LossRecord {
    /// Numbers up to this one were given out.
    pub fn nothing(last: u64) -> LossRecord {
        let (fragment, inos) = (FragmentIndex(0), Vec::new());
        LossRecord::Lost { first: last + 1, fragment, verifier: 0, time: Time::default(), inos, told: true }
    }
}
