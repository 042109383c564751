//! `job_process`: would this script be accepted? Allocates nothing, remembers nothing.

use std::fs::File;
use std::io;
use std::path::Path;

use daemon::error::user;
use model::Token;
use model::phase::{Direction, Redundancy, StageKind};
use wire::control::{ApiError, ErrorCode, JobProcess, JobSummary};

use super::{buffers, setup};
use crate::app::App;
use crate::pool::{self, Ground, Wish};
use crate::script::{self, UNKNOWN_JOB_ID};
use crate::site::Site;
use crate::state::transfers::Transfer;

/// Checks the script, its sizes against the pool, and its sources against the file system.
///
/// # Errors
/// The first reason to refuse the script.
pub(crate) async fn run<S: Site>(app: &App<S>, request: JobProcess) -> Result<JobSummary, ApiError> {
    let plan = planned(app, &request).await?;
    let (ground, views) = (Ground::of(&app.site)?, app.site.nodes());
    let shares = app.database.transact(move |tx| setup::shares(tx, &views)).await?;
    let mut sums = (0, 0, plan.notes.clone());
    let wish = |requested_bytes, pool| {
        let redundancy = Redundancy::None;
        Wish { requested_bytes, pool, fragments: None, access_modes: &[], redundancy }
    };
    let own = plan.own.iter().map(|own| Wish {
        access_modes: &own.access_modes,
        redundancy: own.behaviour.redundancy,
        ..wish(own.requested_bytes, own.pool.as_deref())
    });
    let creates = plan.creates.iter().map(|(bytes, pool)| wish(*bytes, pool.as_deref()));
    for asked in own.chain(creates) {
        let (pool, bytes) = ground.check::<S>(&asked, &shares)?;
        sums.0 += asked.requested_bytes;
        sums.1 += bytes;
        sums.2.extend(pool::rounding_note(asked.requested_bytes, bytes, pool.granularity_bytes));
    }
    let (requested_bytes, capacity_bytes, notes) = sums;
    // Another user's rights cannot be told from here, nor another host's files; the stage itself then finds out.
    let here = app.site.cluster().is_none();
    if here && request.owner.uid == rustix::process::geteuid().as_raw() {
        let stages = plan.stages.clone();
        let checked = tokio::task::spawn_blocking(move || stages.iter().try_for_each(check_source)).await;
        checked.map_err(|error| daemon::error::bug(ErrorCode::CheckPanicked, error.to_string()))??;
    }
    let count = |direction| plan.stages.iter().filter(|stage| stage.direction == direction).count();
    Ok(JobSummary {
        requested_bytes,
        capacity_bytes,
        stage_ins: count(Direction::In),
        stage_outs: count(Direction::Out),
        access_modes: plan.own.map(|own| own.access_modes).unwrap_or_default(),
        notes,
    })
}

async fn planned<S: Site>(app: &App<S>, request: &JobProcess) -> Result<script::Plan, ApiError> {
    let plan = script::plan(&request.script, &Token::unchecked(UNKNOWN_JOB_ID), &request.owner)?;
    setup::check_here(app, &plan, &request.owner)?;
    if let Some(uid) = request.submitter {
        buffers::check_not_others(app, &plan.uses, uid).await?;
    }
    Ok(plan)
}

/// The pools with every instance's share, the default first.
///
/// # Errors
/// The disk or the database cannot be asked.
pub(crate) async fn pools<S: Site>(app: &App<S>) -> Result<Vec<wire::control::PoolStatus>, ApiError> {
    let (ground, views) = (Ground::of(&app.site)?, app.site.nodes());
    let shares = app.database.transact(move |tx| setup::shares(tx, &views)).await?;
    Ok(ground.statuses::<S>(&shares))
}

/// Whether a `stage_in` source is there, is what the directive calls it, and can be read.
fn check_source(stage: &Transfer) -> Result<(), ApiError> {
    let path = &stage.pfs_path;
    if stage.direction == Direction::Out || path.to_string_lossy().contains(UNKNOWN_JOB_ID) {
        return Ok(());
    }
    let refuse = |code: ErrorCode, problem: String, advice: &str| {
        user(code, format!("stage_in source {}: {problem}", path.display()), advice)
    };
    match (look(path, stage.kind), stage.kind) {
        (Ok(true), _) => Ok(()),
        (Ok(false), StageKind::Directory) => {
            Err(refuse(ErrorCode::WrongKind, "not a directory".into(), "write type=file for a file"))
        }
        (Ok(false), StageKind::Any) => Err(refuse(
            ErrorCode::WrongKind,
            "neither a file nor a directory".into(),
            "name what can be copied",
        )),
        (Ok(false), _) => {
            Err(refuse(ErrorCode::WrongKind, "not a file".into(), "write type=directory for a directory"))
        }
        (Err(error), _) => {
            let advice = "correct the path, or make the file readable";
            Err(refuse(ErrorCode::SourceUnreadable, error.to_string(), advice))
        }
    }
}

/// Whether `path` is of the right kind; if so it was opened for reading.
fn look(path: &Path, kind: StageKind) -> io::Result<bool> {
    let metadata = path.metadata()?;
    let right = match kind {
        StageKind::Directory => metadata.is_dir(),
        StageKind::File | StageKind::List => metadata.is_file(),
        StageKind::Any => metadata.is_dir() || metadata.is_file(),
    };
    match (right, metadata.is_dir()) {
        (true, true) => std::fs::read_dir(path).map(|_| true),
        (true, false) => File::open(path).map(|_| true),
        (false, _) => Ok(false),
    }
}
