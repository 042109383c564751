//! What can only be seen when the whole script is read.

use std::collections::HashMap;

use super::paths::plain;
use super::{BufferRoot, Directive, InstanceType, Located, Script, ScriptError, Stage, namespaces};
use crate::buffer::BufferRef;
use crate::phase::{AccessMode, StageKind};

impl Located {
    /// An error at one of its options, or at its start.
    pub(crate) fn error_at(&self, option: &str, message: String) -> ScriptError {
        let place = self.options.iter().find(|place| place.name == option);
        let (line, column) = place.map_or((self.line, 1), |place| (place.line, place.column));
        ScriptError { line, column, message }
    }
}

/// Directives that may stand once but stand again.
pub(super) fn repetitions(script: &Script) -> Vec<ScriptError> {
    let mut errors = Vec::new();
    for (index, located) in script.directives.iter().enumerate() {
        let earlier = &script.directives[..index];
        let first =
            |same: &dyn Fn(&Directive) -> bool| earlier.iter().find(|e| same(&e.directive)).map(|e| e.line);
        errors.extend(match &located.directive {
            Directive::JobDw(job) => first(&|d| matches!(d, Directive::JobDw(other) if !other.joins(job))).map(|line| {
                let message = format!(
                    "a second jobdw, after the one in line {line}: a job has one buffer, and two lines make one only \
                     where they have different access modes and the other options alike; ask for the sum in one jobdw"
                );
                located.error_at("", message)
            }),
            Directive::Swap { .. } => first(&|d| matches!(d, Directive::Swap { .. })).map(|line| {
                located.error_at("", format!("a second swap, after the one in line {line}; ask for the sum in one"))
            }),
            Directive::PersistentDw { name } => {
                first(&|d| matches!(d, Directive::PersistentDw { name: other } if other == name)).map(|line| {
                    located.error_at("name", format!("persistent buffer {name} is already used in line {line}"))
                })
            }
            Directive::CreatePersistent(create) => {
                first(&|d| matches!(d, Directive::CreatePersistent(other) if other.name == create.name)).map(|line| {
                    located.error_at("name", format!("buffer {} is already created in line {line}", create.name))
                })
            }
            _ => None,
        });
    }
    errors
}

/// Files of which only the one that is copied last would be left: two stages of files with different sources and one
/// destination. The same stage twice does no harm.
pub(super) fn destinations_are_one_each(script: &Script) -> Vec<ScriptError> {
    // The first stage to each, and the first of them that copies something else.
    let mut earlier: HashMap<String, Vec<(String, u32)>> = HashMap::new();
    let mut errors = Vec::new();
    for located in &script.directives {
        let Some((source, target)) = file_staged(&located.directive) else { continue };
        let known = earlier.entry(target.clone()).or_default();
        errors.extend(known.iter().find(|(other, _)| *other != source).map(|(_, line)| {
            let message = format!(
                "line {line} copies another file to {target} already, and only the last would be left; give each a \
                 name of its own, or end the destination in a slash where it is a folder"
            );
            located.error_at("destination", message)
        }));
        if known.len() < 2 && known.iter().all(|(other, _)| *other != source) {
            known.push((source, located.line));
        }
    }
    errors
}

/// Source and destination of a stage of one file, each in one spelling; a destination that ends in a slash is a folder.
fn file_staged(directive: &Directive) -> Option<(String, String)> {
    let (Directive::StageIn(stage) | Directive::StageOut(stage)) = directive else { return None };
    let buffer = stage.buffer.as_ref().filter(|_| stage.kind == StageKind::File)?;
    let (pfs, inside) = (plain(&stage.pfs), buffer.to_string());
    let (source, target) =
        if matches!(directive, Directive::StageIn(_)) { (pfs, inside) } else { (inside, pfs) };
    let name = source.rsplit('/').next().unwrap_or_default();
    let target = if target.ends_with('/') { format!("{target}{name}") } else { target };
    Some((source, target))
}

/// Stages whose buffer the script does not ask for.
pub(super) fn stages_have_an_instance(script: &Script) -> Vec<ScriptError> {
    let missing = |located: &Located| {
        let (stage, buffer_side) = match &located.directive {
            Directive::StageIn(stage) => (stage, "destination"),
            Directive::StageOut(stage) => (stage, "source"),
            _ => return None,
        };
        let message = missing_instance(script, stage)?;
        let option = if stage.buffer.is_some() { buffer_side } else { "source" };
        Some(located.error_at(option, message))
    };
    script.directives.iter().filter_map(missing).collect()
}

fn missing_instance(script: &Script, stage: &Stage) -> Option<String> {
    let any = |wanted: &dyn Fn(&Directive) -> bool| script.directives.iter().any(|d| wanted(&d.directive));
    let Some(buffer) = &stage.buffer else {
        let present = any(&|d| matches!(d, Directive::JobDw(_) | Directive::PersistentDw { .. }));
        return (!present)
            .then(|| "a list is staged, but the script asks for no buffer; add a #DW jobdw line".into());
    };
    let scratch = |mode: AccessMode| {
        any(&|d| {
            matches!(d, Directive::JobDw(job) if job.kind == InstanceType::Scratch
                && namespaces(&job.access_modes).contains(&mode))
        })
    };
    let (present, advice) = match (&buffer.root.buffer, buffer.root.access_mode) {
        (BufferRef::Own, AccessMode::Striped) => (
            scratch(AccessMode::Striped),
            "a #DW jobdw line with type=scratch access_mode=striped".to_owned(),
        ),
        (BufferRef::Own, AccessMode::Private) => (
            scratch(AccessMode::Private),
            "a #DW jobdw line with type=scratch access_mode=private".to_owned(),
        ),
        (BufferRef::Persistent(name), _) => (
            any(&|d| matches!(d, Directive::PersistentDw { name: used } if name == used)),
            format!("the line #DW persistentdw name={name}"),
        ),
    };
    let advice = meant(script, &buffer.root).unwrap_or(advice);
    (!present).then(|| format!("the script does not ask for {}; it needs {advice}", buffer.root))
}

/// Who writes a buffer's name as the job's shell has to: a directive has it as it is.
fn meant(script: &Script, root: &BufferRoot) -> Option<String> {
    let used = script.directives.iter().filter_map(|located| match &located.directive {
        Directive::PersistentDw { name } => {
            Some(BufferRoot { buffer: name.clone().into(), access_mode: root.access_mode })
        }
        _ => None,
    });
    let spelt_for_a_shell = used.filter(|used| used.shell_variable() == root.variable());
    spelt_for_a_shell.map(|used| format!("the buffer's name as it is: {used}")).next()
}
