//! What the service answers.

use std::path::Path;

use model::phase::{AccessMode, Direction, Phase};
use model::{InstanceId, NodeName, Token};
use wire::control::{
    ActivationStatus, CLI, FileFailure, InstanceStatus, JobSummary, Owner, Script, SessionStatus, Side,
    StageProgress, StageStatus,
};

pub fn job_summary() -> JobSummary {
    JobSummary {
        requested_bytes: 1 << 30,
        capacity_bytes: 1 << 30,
        access_modes: vec![AccessMode::Striped],
        stage_ins: 1,
        stage_outs: 1,
        notes: vec!["a remark".into()],
    }
}

pub fn activation(buffer: &Path) -> ActivationStatus {
    ActivationStatus {
        node: NodeName::literal("n0"),
        access_mode: AccessMode::Striped,
        mountpoint: buffer.into(),
        mounted: true,
        interruptions: 0,
        persistent: None,
    }
}

pub fn failure(path: &str) -> FileFailure {
    FileFailure {
        path: path.into(),
        side: Side::Pfs,
        operation: "open".into(),
        errno: 13,
        message: format!("open {path}: Permission denied"),
        advice: "ask its owner".into(),
    }
}

fn stage(number: u32, direction: Direction, source: &str, destination: &str) -> StageStatus {
    StageStatus {
        id: format!("1.{number}"),
        direction,
        source: source.into(),
        destination: destination.into(),
        progress: StageProgress { bytes_total: 5, bytes_done: 5, planned: true, ..StageProgress::default() },
        elapsed_ms: 10,
        ..StageStatus::default()
    }
}

fn instance() -> InstanceStatus {
    InstanceStatus {
        id: InstanceId::literal("i1"),
        requested_bytes: 1 << 30,
        capacity_bytes: 1 << 30,
        used_bytes: 5,
        nodes: vec![NodeName::literal("n0")],
        access_modes: vec![AccessMode::Striped],
        pool: "local".into(),
        intact: Some(true),
        allocated_bytes: 1 << 30,
        ..InstanceStatus::default()
    }
}

pub fn session() -> SessionStatus {
    let stage_in = stage(0, Direction::In, "/pfs/a", "$DW_JOB_STRIPED/a");
    let stage_out = stage(1, Direction::Out, "$DW_JOB_STRIPED/b", "/pfs/b");
    SessionStatus {
        token: Token::literal("1"),
        owner: Owner { uid: 0, gid: 0 },
        script: Script {
            text: "#!/bin/sh\n".into(),
            path: "/home/u/job.sh".into(),
            workdir: "/".into(),
            job_name: "job.sh".into(),
            user: "u".into(),
        },
        created_unix: 0,
        phase: Phase::Registered,
        busy: None,
        failed: None,
        instance: Some(instance()),
        activations: vec![],
        stages: vec![stage_in, stage_out],
        timings_ms: vec![],
        kept: None,
        notes: vec![],
        caller: CLI.into(),
        persistent: None,
        uses: vec![],
        quarantined: None,
        bytes_dirty: 0,
        bytes_left: 0,
    }
}
