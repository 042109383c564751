//! How a stage ends on a site in memory.

use model::phase::{StageKind, StageState};
use wire::control::{FileFailure, Side, StageProgress, StageStatus};
use wire::node::StageSpec;

use super::World;

/// What becomes of a stage, by its source.
pub(super) fn outcome(world: &World, spec: &StageSpec) -> StageStatus {
    let state = match () {
        () if world.failing.contains(&spec.source) => StageState::Failed,
        () if world.hanging.contains(&spec.source) => StageState::Active,
        () => StageState::Complete,
    };
    let failure = FileFailure {
        path: spec.pfs_path.display().to_string(),
        side: Side::Pfs,
        operation: "create".into(),
        errno: 13,
        message: "create /pfs/a: Permission denied".into(),
        advice: "make the folder writable".into(),
    };
    assert_eq!(spec.kind == StageKind::List, !spec.pairs.is_empty(), "no test has a list file");
    StageStatus {
        id: spec.id.clone(),
        direction: spec.direction,
        kind: spec.kind,
        source: spec.source.clone(),
        destination: spec.destination.clone(),
        state,
        progress: StageProgress { entries_total: 3, entries_failed: 1, ..StageProgress::default() },
        elapsed_ms: 1,
        failures: if state == StageState::Failed { vec![failure] } else { Vec::new() },
        ..StageStatus::default()
    }
}
