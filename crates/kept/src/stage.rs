//! The specification of a stage, what it was told since, and what the PFS was on.

use std::path::PathBuf;

use model::Ino;
use model::phase::{Direction, StageKind};
use wire::control::{Owner, StagePair};
use wire::node::{NamespaceTarget, PfsMount, StageControl, StagePolicy, StageSpec, Verify};

form! {
    struct StageForm of StageSpec {
        id: String,
        direction: Direction,
        kind: StageKind,
        pfs_path: PathBuf,
        buffer_path: String,
        buffer_name: String,
        source: String,
        destination: String,
        target: NamespaceTarget,
        owner: Owner,
        #[serde(default)]
        pairs: Vec<StagePair>,
        #[serde(default)]
        source_ino: Option<Ino>,
        #[serde(default)]
        pfs_mounts: Vec<PfsMount>,
        #[serde(default)]
        policy: StagePolicy,
        #[serde(default)]
        ticket: String,
    }
}

form! {
    struct PfsMountForm of PfsMount {
        path: PathBuf,
        mountpoint: PathBuf,
        kind: String,
    }
}

form! {
    struct PairForm of StagePair {
        buffer: String,
        pfs: PathBuf,
        #[serde(default)]
        size_hint: Option<u64>,
        #[serde(default)]
        ino: Option<Ino>,
    }
}

form! {
    #[derive(Default)]
    #[serde(default)]
    struct PolicyForm of StagePolicy {
        verify: Verify,
        manifest: Option<PathBuf>,
        bandwidth_bytes_per_s: Option<u64>,
        while_running: bool,
    }
}

form! {
    #[derive(Default)]
    #[serde(rename_all = "snake_case")]
    enum VerifyForm of Verify {
        #[default]
        BySize,
        Full,
        Sampled,
        Off,
    }
}

form! {
    #[derive(Default)]
    #[serde(default)]
    struct ControlForm of StageControl {
        paused: bool,
        bandwidth_bytes_per_s: Option<u64>,
    }
}
