//! Values that tests of this crate show and follow.

use model::phase::{AccessMode, Direction, Function, Phase, StageKind, StageState};
use model::{InstanceId, NodeName, Token};
use wire::control::{
    ApiError, Blame, CLI, ErrorCode, FileFailure, InstanceStatus, Owner, Script, SessionStatus, Side,
    StageProgress, StageStatus,
};

/// A stage-in that is complete.
pub fn stage_in() -> StageStatus {
    StageStatus {
        id: "3.0".into(),
        direction: Direction::In,
        kind: StageKind::Directory,
        source: "/pfs/stars".into(),
        destination: "$DW_JOB_STRIPED/stars".into(),
        state: StageState::Complete,
        progress: StageProgress {
            entries_total: 4,
            entries_done: 4,
            bytes_total: 38 << 20,
            bytes_done: 38 << 20,
            bytes_verified: 38 << 20,
            bytes_to_verify: 38 << 20,
            entries_failed: 0,
            planned: true,
            ..StageProgress::default()
        },
        elapsed_ms: 2_000,
        ..StageStatus::default()
    }
}

/// A stage-out that failed at one file of three.
pub fn failed_stage_out() -> StageStatus {
    StageStatus {
        id: "3.1".into(),
        direction: Direction::Out,
        source: "$DW_JOB_STRIPED/results".into(),
        destination: "/pfs/results".into(),
        state: StageState::Failed,
        progress: StageProgress {
            entries_total: 3,
            entries_done: 2,
            bytes_total: 3 << 20,
            bytes_done: 2 << 20,
            bytes_verified: 2 << 20,
            bytes_to_verify: 3 << 20,
            entries_failed: 1,
            planned: true,
            ..StageProgress::default()
        },
        failures: vec![FileFailure {
            path: "/pfs/results/stars.h5".into(),
            side: Side::Pfs,
            operation: "write".into(),
            errno: 28,
            message: "write /pfs/results/stars.h5: No space left on device".into(),
            advice: "make room there".into(),
        }],
        ..stage_in()
    }
}

/// A session whose stage-out failed.
pub fn session() -> SessionStatus {
    let begin = [(Function::Setup, 150), (Function::DataIn, 2_010)];
    let timings_ms = [begin, [(Function::PreRun, 40), (Function::PostRun, 30)]].concat();
    SessionStatus {
        token: Token::literal("3"),
        owner: Owner { uid: 1000, gid: 1000 },
        script: Script {
            text: "#!/bin/sh\n".into(),
            path: "/home/u/job.sh".into(),
            workdir: "/home/u".into(),
            job_name: "stars".into(),
            user: "u".into(),
        },
        created_unix: 1_700_000_000,
        phase: Phase::Unmounted,
        busy: None,
        failed: Some((Function::DataOut, refusal())),
        instance: Some(instance()),
        activations: vec![],
        stages: vec![stage_in(), failed_stage_out()],
        timings_ms,
        kept: None,
        notes: vec!["capacity 1GiB is 64 grains".into()],
        caller: CLI.into(),
        persistent: None,
        uses: vec![],
        quarantined: None,
        bytes_dirty: 0,
        bytes_left: 0,
    }
}

/// Why the stage-out failed.
pub fn refusal() -> ApiError {
    ApiError {
        code: ErrorCode::StageFailed,
        blame: Blame::Site,
        message: "1 of 3 entries could not be staged out".into(),
        advice: "correct the cause and run `forebay stage retry 3`".into(),
    }
}

/// Its buffer.
fn instance() -> InstanceStatus {
    InstanceStatus {
        id: InstanceId::literal("i3"),
        requested_bytes: 1 << 30,
        capacity_bytes: 1 << 30,
        used_bytes: 41 << 20,
        nodes: vec![NodeName::literal("n0")],
        access_modes: vec![AccessMode::Striped],
        pool: "local".into(),
        intact: Some(true),
        allocated_bytes: 1 << 30,
        ..InstanceStatus::default()
    }
}
