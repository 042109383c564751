//! What the grammar knows and this release does not do. It is refused, never ignored: a job that runs without the
//! buffer it asked for loses its data or its allocation. What is a mere hint is accepted ([`super::hints()`]).

use super::{
    AccessModeRequest, Capacity, CreatePersistent, Directive, InstanceType, JobDw, Located, Script,
    ScriptError, hints,
};

/// What is well written but not yet built in this release, to be refused in the same words everywhere. Empty where
/// everything is built.
pub fn unsupported(script: &Script) -> Vec<ScriptError> {
    script.directives.iter().flat_map(refusals).collect()
}

fn refusals(located: &Located) -> Vec<ScriptError> {
    let whole = |what: &str, instead: &str| {
        vec![located.error_at("", format!("{what} is not built in this release; {instead}"))]
    };
    match &located.directive {
        Directive::JobDw(job) => jobdw(located, job),
        Directive::CreatePersistent(create) => create_persistent(located, create),
        Directive::Swap { .. } => whole("swap", "remove the line if the job's memory suffices without"),
        Directive::PersistentDw { .. }
        | Directive::DestroyPersistent { .. }
        | Directive::StageIn(_)
        | Directive::StageOut(_) => Vec::new(),
    }
}

fn jobdw(located: &Located, job: &JobDw) -> Vec<ScriptError> {
    let mut errors = instance(located, Some(job.kind), job.capacity);
    errors.extend(modifiers(located, &job.access_modes, hints::is_modifier));
    errors.sort_by_key(|error| (error.line, error.column));
    errors
}

fn create_persistent(located: &Located, create: &CreatePersistent) -> Vec<ScriptError> {
    let mut errors = instance(located, create.kind, create.capacity);
    let known = |name: &str, value: &str| match name {
        CreatePersistent::SHARED => matches!(value, "yes" | "no"),
        CreatePersistent::REDUNDANCY => matches!(value, "none" | "mirror"),
        _ => hints::is_modifier(name, value),
    };
    errors.extend(modifiers(located, &create.access_modes, known));
    errors.sort_by_key(|error| (error.line, error.column));
    errors
}

/// What a job's buffer and a persistent one have in common.
fn instance(located: &Located, kind: Option<InstanceType>, capacity: Capacity) -> Vec<ScriptError> {
    let mut errors = Vec::new();
    if kind == Some(InstanceType::Cache) {
        let instead = "use type=scratch, with stage_in and stage_out for the files";
        errors.push(refusal(located, "type", "type=cache", instead));
    }
    if let Capacity::Nodes(nodes) = capacity {
        // Measured with Slurm 22.05: its plugin sets the highest bit of the number for the unit, then counts bytes.
        // Until the job ends no other one gets a buffer, and what `real_size` says does not mend that.
        let why =
            format!("Slurm would count a capacity of {nodes} nodes as 8 EiB, and give no other job a buffer");
        errors.push(located.error_at("capacity", format!("{why}; give it in bytes, as 10GiB")));
    }
    errors
}

/// Modifiers of access modes, except the known.
fn modifiers(
    located: &Located,
    modes: &[AccessModeRequest],
    known: impl Fn(&str, &str) -> bool,
) -> Vec<ScriptError> {
    let all = modes.iter().flat_map(|request| &request.modifiers);
    let unknown = all.filter(|(name, value)| !known(name, value));
    unknown
        .map(|(name, value)| {
            refusal(located, "access_mode", &format!("the modifier {name}={value}"), "remove it")
        })
        .collect()
}

fn refusal(located: &Located, option: &str, what: &str, instead: &str) -> ScriptError {
    located.error_at(option, format!("{what} is not built in this release; {instead}"))
}
