//! What a run does, as its reports and its journal name it, and what was chosen about how. Not where the bytes are.

use model::phase::{Direction, StageKind};
use wire::node::{StagePolicy, StageSpec};

/// A task: a stage, or whatever else copies with its guarantees.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name: no other task with the same target has it.
    pub id: String,
    /// Which way.
    pub direction: Direction,
    /// What the source names.
    pub kind: StageKind,
    /// The source, for reports.
    pub source: String,
    /// The destination, for reports.
    pub destination: String,
    /// How it is done.
    pub policy: StagePolicy,
}

impl From<&StageSpec> for Task {
    fn from(spec: &StageSpec) -> Task {
        Task {
            id: spec.id.clone(),
            direction: spec.direction,
            kind: spec.kind,
            source: spec.source.clone(),
            destination: spec.destination.clone(),
            policy: spec.policy.clone(),
        }
    }
}
