//! From a batch script to what is to be allocated and staged: pure.

use model::Token;
use model::buffer::BufferRef;
use model::directive::{self, Behaviour, Capacity, Directive, JobDw};
use model::phase::{AccessMode, Direction};
use model::symbols::Symbols;
use wire::control::{ApiError, ErrorCode, Owner, Script, StageDue};

use daemon::error::{bug, user};

use crate::state::transfers::{self, Origin, Transfer};

/// What `%j` stands for while there is no job yet; a path with it cannot be looked at. It is no token, and
/// nothing is noted with it.
pub(crate) const UNKNOWN_JOB_ID: &str = "<job-id>";

/// How the note of the options that have no effect begins.
const WITHOUT_EFFECT: &str = "options without effect here: ";

/// What a script asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The job's own buffer; `None` where it only uses persistent ones.
    pub own: Option<Own>,
    /// The persistent buffers that the job uses, in the script's order.
    pub uses: Vec<Token>,
    /// Persistent buffers that the script creates: bytes and pool of each. The workload manager asks for them.
    pub creates: Vec<(u64, Option<String>)>,
    /// Whether it has `#BB` lines, which the workload manager carries out.
    pub has_bb: bool,
    /// Every `stage_in` in the script's order, then every `stage_out`.
    pub stages: Vec<Transfer>,
    /// Remarks for the user.
    pub notes: Vec<String>,
}

/// A buffer of the job's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// Bytes that the directives ask for.
    pub requested_bytes: u64,
    /// In the script's order.
    pub access_modes: Vec<AccessMode>,
    /// `None`: the default pool.
    pub pool: Option<String>,
    /// How it behaves.
    pub behaviour: Behaviour,
}

/// Reads a script for the job `job_id` of `owner`.
///
/// # Errors
/// The first mistake, a script without directives, or what is not built yet.
pub(crate) fn plan(script: &Script, job_id: &Token, owner: &Owner) -> Result<Plan, ApiError> {
    let symbols = symbols(script, job_id);
    let parsed = directive::parse(&script.text, &symbols)
        .map_err(|errors| refusal(script, ErrorCode::BadDirective, &errors.0))?;
    let unsupported = directive::unsupported(&parsed);
    if !unsupported.is_empty() {
        return Err(refusal(script, ErrorCode::NotBuilt, &unsupported));
    }
    let directives: Vec<&Directive> = parsed.directives.iter().map(|located| &located.directive).collect();
    let mut plan = Plan { notes: notes(&directive::hints(&parsed)), ..Plan::default() };
    for directive in &directives {
        match directive {
            Directive::JobDw(job) => plan.own = Some(joined(plan.own.take(), job)?),
            Directive::PersistentDw { name } => plan.uses.push(name.clone()),
            Directive::CreatePersistent(create) => {
                plan.creates.push((bytes(create.capacity)?, create.pool.clone()));
                plan.has_bb = true;
            }
            Directive::DestroyPersistent { .. } => plan.has_bb = true,
            Directive::StageIn(_) | Directive::StageOut(_) | Directive::Swap { .. } => {}
        }
    }
    if plan.own.is_none() && plan.uses.is_empty() && !plan.has_bb {
        return Err(nothing_to_do(script));
    }
    plan.stages = (0..).zip(stages(&directives)).map(|stage| planned(stage, &plan, job_id, owner)).collect();
    Ok(plan)
}

fn symbols(script: &Script, job_id: &Token) -> Symbols {
    Symbols {
        job_id: job_id.to_string(),
        // Not an array: Slurm then gives the job's own id, and a task id that means nothing.
        array_job_id: job_id.to_string(),
        array_task_id: "0".to_owned(),
        workdir: script.workdir.to_string_lossy().into_owned(),
        user: script.user.clone(),
        job_name: script.job_name.clone(),
    }
}

fn refusal(script: &Script, code: ErrorCode, errors: &[directive::ScriptError]) -> ApiError {
    let more = match errors.len() {
        0 | 1 => String::new(),
        n => format!(" (and {} more)", n - 1),
    };
    let first = errors.first().map(ToString::to_string).unwrap_or_default();
    user(code, format!("{}: {first}{more}", script.path.display()), "correct the script")
}

fn nothing_to_do(script: &Script) -> ApiError {
    user(
        ErrorCode::NoDirectives,
        format!("{} asks for no buffer: there is nothing for Forebay to do", script.path.display()),
        "add a line as `#DW jobdw type=scratch access_mode=striped capacity=10GiB` above the first command",
    )
}

fn bytes(capacity: Capacity) -> Result<u64, ApiError> {
    match capacity {
        Capacity::Bytes(bytes) => Ok(bytes),
        Capacity::Nodes(_) => Err(bug(ErrorCode::Unplanned, "a capacity in nodes was not refused")),
    }
}

/// The job's own buffer with what one more line asks for.
fn joined(earlier: Option<Own>, job: &JobDw) -> Result<Own, ApiError> {
    let mut own = earlier.unwrap_or_else(|| Own {
        requested_bytes: 0,
        access_modes: Vec::new(),
        pool: job.pool.clone(),
        behaviour: job.behaviour,
    });
    own.requested_bytes = own.requested_bytes.saturating_add(bytes(job.capacity)?);
    for mode in directive::namespaces(&job.access_modes) {
        if !own.access_modes.contains(&mode) {
            own.access_modes.push(mode);
        }
    }
    Ok(own)
}

fn notes(hints: &[String]) -> Vec<String> {
    let note = || format!("{WITHOUT_EFFECT}{}", hints.join(" "));
    (!hints.is_empty()).then(note).into_iter().collect()
}

/// The one of a session's notes that says which of its options have no effect.
pub(crate) fn without_effect(notes: &[String]) -> Option<&String> {
    notes.iter().find(|note| note.starts_with(WITHOUT_EFFECT))
}

/// Every `stage_in` in the script's order, then every `stage_out`.
fn stages<'a>(directives: &[&'a Directive]) -> impl Iterator<Item = (Direction, &'a directive::Stage)> {
    let ins = directives.iter().filter_map(|directive| match directive {
        Directive::StageIn(stage) => Some((Direction::In, stage)),
        _ => None,
    });
    let outs = directives.iter().filter_map(|directive| match directive {
        Directive::StageOut(stage) => Some((Direction::Out, stage)),
        _ => None,
    });
    ins.chain(outs)
}

fn planned(
    (position, (direction, stage)): (u32, (Direction, &directive::Stage)),
    plan: &Plan,
    job_id: &Token,
    owner: &Owner,
) -> Transfer {
    let ((buffer, access_mode), buffer_path) = match &stage.buffer {
        // A list's lines name the buffer themselves: the job's own, else the first persistent one.
        None => ((buffer_of_lists(plan), AccessMode::Striped), String::new()),
        Some(path) => ((path.root.buffer.clone(), path.root.access_mode), path.path.clone()),
    };
    let due = match direction {
        Direction::In => StageDue::Now,
        Direction::Out => StageDue::AtJobEnd,
    };
    let (source, destination) = (stage.source.clone(), stage.destination.clone());
    Transfer {
        number: 0,
        token: job_id.to_owned(),
        job: Some(job_id.to_owned()),
        origin: Origin::Script { position, source, destination },
        direction,
        kind: stage.kind,
        buffer,
        access_mode,
        buffer_path,
        pfs_path: stage.pfs.clone().into(),
        pfs_mount: None,
        owner: owner.clone(),
        state: transfers::waiting(due),
        report: None,
    }
}

fn buffer_of_lists(plan: &Plan) -> BufferRef {
    match (&plan.own, plan.uses.first()) {
        (None, Some(name)) => BufferRef::Persistent(name.clone()),
        _ => BufferRef::Own,
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

    const OWNER: Owner = Owner { uid: 1000, gid: 1000 };

    const JOB: &str = "#!/bin/sh\n#DW jobdw type=scratch access_mode=striped capacity=10GB\n";

    #[test]
    fn stages_come_in_then_out_with_symbols_replaced() {
        let text = format!(
            "{JOB}#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=%d/out-%j\n\
             #DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a\n"
        );
        let plan = plan(&script(&text), &Token::literal("7"), &OWNER).unwrap();
        assert_eq!(plan.own.unwrap().requested_bytes, 10_000_000_000);
        let stages: Vec<_> =
            plan.stages.iter().map(|s| (s.id("7"), s.direction, s.pfs_path.to_str().unwrap())).collect();
        assert_eq!(
            stages,
            [("7.0".to_owned(), Direction::In, "/pfs/a"), ("7.1".to_owned(), Direction::Out, "/pfs/u/out-7")]
        );
    }

    #[test]
    fn two_lines_of_different_kinds_are_one_buffer_of_both_sizes() {
        let private = "#DW jobdw type=scratch access_mode=private capacity=1GiB optimization_strategy=wear\n";
        let plan = plan(&script(&format!("{JOB}{private}")), &Token::literal("7"), &OWNER).unwrap();
        let own = plan.own.unwrap();
        assert_eq!(own.requested_bytes, 10_000_000_000 + (1 << 30));
        assert_eq!(own.access_modes, [AccessMode::Striped, AccessMode::Private]);
        assert_eq!(plan.notes, ["options without effect here: optimization_strategy=wear"]);
    }

    #[test]
    fn copies_for_reading_are_the_striped_namespace() {
        let text = "#DW jobdw type=scratch access_mode=ldbalance,striped(client_cache=no) capacity=1GiB\n";
        let plan = plan(&script(text), &Token::literal("7"), &OWNER).unwrap();
        assert_eq!(plan.own.unwrap().access_modes, [AccessMode::Striped]);
        assert_eq!(plan.notes, ["options without effect here: access_mode=ldbalance client_cache=no"]);
    }

    #[test]
    fn a_script_without_directives_is_told_how_one_looks() {
        let error = plan(&script("#!/bin/sh\nhostname\n"), &Token::literal("1"), &OWNER).unwrap_err();
        assert_eq!(error.code, ErrorCode::NoDirectives);
        assert!(error.advice.contains("#DW jobdw"));
    }

    #[test]
    fn what_is_not_built_is_refused_with_its_line() {
        let error = plan(&script("#!/bin/sh\n#DW swap 1GiB\n"), &Token::literal("1"), &OWNER).unwrap_err();
        assert_eq!(error.code, ErrorCode::NotBuilt);
        assert!(error.message.contains("line 2"), "{}", error.message);
    }

    #[test]
    fn a_job_may_use_persistent_buffers_only() {
        let text = "#!/bin/sh\n#DW persistentdw name=shared\n\
            #DW stage_in type=file source=/pfs/a destination=$DW_PERSISTENT_STRIPED_shared/a\n";
        let plan = plan(&script(text), &Token::literal("1"), &OWNER).unwrap();
        assert_eq!((plan.own, plan.uses), (None, vec![Token::literal("shared")]));
        assert_eq!(
            (plan.stages[0].buffer.persistent().map(Token::as_str), plan.stages[0].access_mode),
            (Some("shared"), AccessMode::Striped)
        );
    }

    #[test]
    fn lines_of_the_workload_manager_are_no_reason_to_refuse() {
        let text = "#!/bin/sh\n#BB create_persistent name=x capacity=1GiB pool=fast\n#BB destroy_persistent name=y\n";
        let plan = plan(&script(text), &Token::literal("1"), &OWNER).unwrap();
        assert_eq!((plan.own, plan.has_bb), (None, true));
        assert_eq!(plan.creates, [(1 << 30, Some("fast".to_owned()))]);
    }
}
