//! `job_process`: would this script be accepted? Allocates nothing, remembers nothing.

use std::fs::File;
use std::io;
use std::path::Path;

use daemon::error::user;
use model::phase::{Direction, StageKind};
use wire::control::{ApiError, JobProcess, JobSummary};

use crate::control::Control;
use crate::pool;
use crate::script::{self, UNKNOWN_JOB_ID};
use crate::site::Site;
use crate::state::instances;
use crate::state::stages::Stage;
use crate::status::used_bytes;

/// Checks the script, its sizes against the pool, and its sources against the file system.
///
/// # Errors
/// The first reason to refuse the script.
pub async fn run<S: Site>(control: &Control<S>, request: JobProcess) -> Result<JobSummary, ApiError> {
    let plan = script::plan(&request.script, UNKNOWN_JOB_ID)?;
    let allocation = script::allocate(plan.requested_bytes, 1)?;
    pool::check_total(&pool_status(control).await?, allocation.capacity_bytes)?;
    // Another user's rights cannot be told from here; the stage itself then finds out.
    if request.owner.uid == rustix::process::geteuid().as_raw() {
        let stages = plan.stages.clone();
        let checked = tokio::task::spawn_blocking(move || stages.iter().try_for_each(check_source)).await;
        checked.map_err(|error| daemon::error::bug("check_panicked", error.to_string()))??;
    }
    let count = |direction| plan.stages.iter().filter(|stage| stage.direction == direction).count();
    Ok(JobSummary {
        requested_bytes: plan.requested_bytes,
        capacity_bytes: allocation.capacity_bytes,
        stage_ins: count(Direction::In),
        stage_outs: count(Direction::Out),
        access_modes: plan.access_modes,
        notes: script::rounding_note(plan.requested_bytes, allocation.capacity_bytes).into_iter().collect(),
    })
}

/// The pool with every instance's share.
///
/// # Errors
/// The disk or the database cannot be asked.
pub async fn pool_status<S: Site>(control: &Control<S>) -> Result<wire::control::PoolStatus, ApiError> {
    let instances = control.database.transact(instances::all).await?;
    let nodes = control.site.nodes();
    let shares: Vec<_> = instances
        .iter()
        .map(|instance| pool::Share::of(instance, used_bytes(&instance.id, &nodes)))
        .collect();
    Ok(pool::status(control.site.disk()?, &shares))
}

/// Whether a `stage_in` source is there, is what the directive calls it, and can be read.
fn check_source(stage: &Stage) -> Result<(), ApiError> {
    let path = &stage.pfs_path;
    if stage.direction == Direction::Out || path.to_string_lossy().contains(UNKNOWN_JOB_ID) {
        return Ok(());
    }
    let refuse = |code: &str, problem: String, advice: &str| {
        user(code, format!("stage_in source {}: {problem}", path.display()), advice)
    };
    match (look(path, stage.kind), stage.kind) {
        (Ok(true), _) => Ok(()),
        (Ok(false), StageKind::Directory) => {
            Err(refuse("wrong_kind", "not a directory".into(), "write type=file for a file"))
        }
        (Ok(false), _) => {
            Err(refuse("wrong_kind", "not a file".into(), "write type=directory for a directory"))
        }
        (Err(error), _) => {
            let advice = "correct the path in the script, or make the file readable";
            Err(refuse("source_unreadable", error.to_string(), advice))
        }
    }
}

/// Whether `path` is of the right kind; if so it was opened for reading.
fn look(path: &Path, kind: StageKind) -> io::Result<bool> {
    let metadata = path.metadata()?;
    let right = match kind {
        StageKind::Directory => metadata.is_dir(),
        StageKind::File | StageKind::List => metadata.is_file(),
    };
    match (right, kind) {
        (true, StageKind::Directory) => std::fs::read_dir(path).map(|_| true),
        (true, _) => File::open(path).map(|_| true),
        (false, _) => Ok(false),
    }
}
