//! From a batch script to what is to be allocated and staged: pure.

use model::directive::{self, BufferRoot, Capacity, Directive, JobDw, RequestedMode};
use model::phase::{AccessMode, Direction, StageState};
use model::size;
use model::symbols::Symbols;
use wire::control::{ApiError, Script};

use daemon::error::{bug, user};

use crate::state::stages::Stage;

/// Bytes in a grain of the pool.
pub const GRANULARITY_BYTES: u64 = 1 << 20;

/// The one pool.
pub const POOL: &str = "local";

/// What `%j` stands for while there is no job yet; a path with it cannot be looked at.
pub const UNKNOWN_JOB_ID: &str = "<job-id>";

/// What a script asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Bytes that the directives ask for.
    pub requested_bytes: u64,
    /// In the script's order.
    pub access_modes: Vec<AccessMode>,
    /// Every `stage_in` in the script's order, then every `stage_out`.
    pub stages: Vec<Stage>,
}

/// A capacity in whole grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Bytes on each fragment.
    pub fragment_bytes: u64,
    /// Bytes on all fragments.
    pub capacity_bytes: u64,
}

/// Reads a script for the job `job_id`.
///
/// # Errors
/// The first mistake, a script without directives, or what is not built yet.
pub fn plan(script: &Script, job_id: &str) -> Result<Plan, ApiError> {
    let symbols = symbols(script, job_id);
    let parsed = directive::parse(&script.text, &symbols)
        .map_err(|errors| refusal(script, "bad_directive", &errors.0))?;
    let unsupported = directive::unsupported(&parsed);
    if !unsupported.is_empty() {
        return Err(refusal(script, "not_built", &unsupported));
    }
    let directives: Vec<&Directive> = parsed.directives.iter().map(|located| &located.directive).collect();
    let job = directives.iter().find_map(|directive| match directive {
        Directive::JobDw(job) => Some(job),
        _ => None,
    });
    let job = job.ok_or_else(|| nothing_to_do(script))?;
    check_pool(job)?;
    Ok(Plan { requested_bytes: bytes(job)?, access_modes: access_modes(job)?, stages: stages(&directives)? })
}

/// Rounds up so that every fragment gets the same whole number of grains.
///
/// # Errors
/// More than 2^64 bytes.
pub fn allocate(requested_bytes: u64, fragments: u32) -> Result<Allocation, ApiError> {
    let count = u64::from(fragments.max(1));
    let allocation = || {
        let grains = size::grains(requested_bytes, GRANULARITY_BYTES)?.div_ceil(count);
        let fragment_bytes = grains.checked_mul(GRANULARITY_BYTES)?;
        Some(Allocation { fragment_bytes, capacity_bytes: fragment_bytes.checked_mul(count)? })
    };
    let too_large =
        || user("too_large", format!("a buffer of {requested_bytes} bytes is not possible"), "ask for less");
    allocation().ok_or_else(too_large)
}

/// The remark on rounding; `None` where nothing was rounded.
pub fn rounding_note(requested_bytes: u64, capacity_bytes: u64) -> Option<String> {
    let grains = capacity_bytes / GRANULARITY_BYTES;
    (capacity_bytes != requested_bytes).then(|| {
        format!(
            "capacity {requested_bytes} bytes rounded up to {grains} grains of 1 MiB ({capacity_bytes} bytes)"
        )
    })
}

fn symbols(script: &Script, job_id: &str) -> Symbols {
    Symbols {
        job_id: job_id.to_owned(),
        // Not an array: Slurm then gives the job's own id, and a task id that means nothing.
        array_job_id: job_id.to_owned(),
        array_task_id: "0".to_owned(),
        workdir: script.workdir.to_string_lossy().into_owned(),
        user: script.user.clone(),
        job_name: script.job_name.clone(),
    }
}

fn refusal(script: &Script, code: &str, errors: &[directive::ScriptError]) -> ApiError {
    let more = match errors.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    user(code, format!("{}: {first}{more}", script.path.display()), "correct the script")
}

fn nothing_to_do(script: &Script) -> ApiError {
    user(
        "no_directives",
        format!("{} asks for no buffer: there is nothing for Forebay to do", script.path.display()),
        "add a line as `#DW jobdw type=scratch access_mode=striped capacity=10GiB` above the first command",
    )
}

fn check_pool(job: &JobDw) -> Result<(), ApiError> {
    match &job.pool {
        Some(pool) if pool != POOL => {
            let advice = format!("write pool={POOL} or leave it out");
            Err(user("unknown_pool", format!("there is no pool {pool} here"), advice))
        }
        _ => Ok(()),
    }
}

fn bytes(job: &JobDw) -> Result<u64, ApiError> {
    match job.capacity {
        Capacity::Bytes(bytes) => Ok(bytes),
        Capacity::Nodes(_) => Err(bug("unplanned", "a capacity in nodes was not refused")),
    }
}

fn access_modes(job: &JobDw) -> Result<Vec<AccessMode>, ApiError> {
    let mode = |requested| match requested {
        RequestedMode::Striped => Ok(AccessMode::Striped),
        RequestedMode::Private => Ok(AccessMode::Private),
        RequestedMode::Ldbalance => Err(bug("unplanned", "ldbalance was not refused")),
    };
    job.access_modes.iter().map(|request| mode(request.mode)).collect()
}

fn stages(directives: &[&Directive]) -> Result<Vec<Stage>, ApiError> {
    let ins = directives.iter().filter_map(|directive| match directive {
        Directive::StageIn(stage) => Some((Direction::In, stage)),
        _ => None,
    });
    let outs = directives.iter().filter_map(|directive| match directive {
        Directive::StageOut(stage) => Some((Direction::Out, stage)),
        _ => None,
    });
    (0u32..)
        .zip(ins.chain(outs))
        .map(|(position, (direction, stage))| planned(position, direction, stage))
        .collect()
}

fn planned(position: u32, direction: Direction, stage: &directive::Stage) -> Result<Stage, ApiError> {
    let (access_mode, buffer_path) = match &stage.buffer {
        // A list's lines name the buffer themselves.
        None => (AccessMode::Striped, String::new()),
        Some(buffer) => (mode_of(&buffer.root)?, buffer.path.clone()),
    };
    Ok(Stage {
        position,
        direction,
        kind: stage.kind,
        access_mode,
        pfs_path: stage.pfs.clone().into(),
        buffer_path,
        source: stage.source.clone(),
        destination: stage.destination.clone(),
        state: match direction {
            Direction::In => StageState::Pending,
            Direction::Out => StageState::Deferred,
        },
        report: None,
    })
}

fn mode_of(root: &BufferRoot) -> Result<AccessMode, ApiError> {
    match root {
        BufferRoot::JobStriped => Ok(AccessMode::Striped),
        BufferRoot::JobPrivate => Ok(AccessMode::Private),
        _ => Err(bug("unplanned", format!("a stage with {root} was not refused"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        Script {
            text: text.into(),
            path: "job.sh".into(),
            workdir: "/pfs/u".into(),
            job_name: "j".into(),
            user: "u".into(),
        }
    }

    const JOB: &str = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=10GB\n";

    #[test]
    fn stages_come_in_then_out_with_symbols_replaced() {
        let text = format!(
            "{JOB}#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=%d/out-%j\n\
             #DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a\n"
        );
        let plan = plan(&script(&text), "7").unwrap();
        assert_eq!(plan.requested_bytes, 10_000_000_000);
        let stages: Vec<_> =
            plan.stages.iter().map(|s| (s.position, s.direction, s.pfs_path.to_str().unwrap())).collect();
        assert_eq!(stages, [(0, Direction::In, "/pfs/a"), (1, Direction::Out, "/pfs/u/out-7")]);
    }

    #[test]
    fn a_script_without_directives_is_told_how_one_looks() {
        let error = plan(&script("#!/bin/sh\nhostname\n"), "1").unwrap_err();
        assert_eq!(error.code, "no_directives");
        assert!(error.advice.contains("#DW jobdw"));
    }

    #[test]
    fn what_is_not_built_is_refused_with_its_line() {
        let error = plan(&script("#!/bin/sh\n#DW persistentdw name=x\n"), "1").unwrap_err();
        assert_eq!(error.code, "not_built");
        assert!(error.message.contains("line 2"), "{}", error.message);
    }

    #[test]
    fn another_pool_is_refused_by_name() {
        let error = plan(&script(&format!("{} pool=wlm\n", JOB.trim_end())), "1").unwrap_err();
        assert!(error.message.contains("wlm") && error.advice.contains("local"));
    }

    #[test]
    fn every_fragment_gets_the_same_whole_number_of_grains() {
        let one = allocate(10_000_000_000, 1).unwrap();
        assert_eq!(one.capacity_bytes, 9537 << 20);
        let four = allocate(10_000_000_000, 4).unwrap();
        assert_eq!((four.fragment_bytes, four.capacity_bytes), (2385 << 20, 9540 << 20));
        assert!(allocate(u64::MAX, 4).is_err());
        assert_eq!(rounding_note(1 << 30, 1 << 30), None);
        assert!(rounding_note(10_000_000_000, one.capacity_bytes).unwrap().contains("9537 grains"));
    }
}
