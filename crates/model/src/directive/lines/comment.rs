//! Comments behind a directive.

use super::{Item, Place, ScriptError, Statement};

/// What Slurm looks for in the whole line, whatever stands before it (`burst_buffer_datawarp.c`).
const LOOKED_FOR: [&str; 6] = ["capacity=", "pool=", "name=", "access_mode=", "access=", "type="];

/// The words of a line, and its comment: from the first word on that begins with `#`.
pub(super) fn split(line: &str) -> (&str, Option<&str>) {
    let begins = |at: usize| line[..at].ends_with(|c: char| c.is_ascii_whitespace());
    match line.match_indices('#').find(|(at, _)| begins(*at)) {
        Some((at, _)) => (&line[..at], Some(&line[at..])),
        None => (line, None),
    }
}

/// An option in a comment that the directive lacks: Slurm would take it, and count another pool or size than the job
/// gets.
pub(super) fn refusal(statement: &Statement, place: Place, comment: &str) -> Option<ScriptError> {
    let has = |option: &str| {
        statement.items.iter().any(|item| match item {
            Item::Option { name, .. } => name.text == option.trim_end_matches('='),
            Item::Plain(_) => false,
        })
    };
    // It does not look at stages.
    if statement.is_stage() {
        return None;
    }
    let taken = LOOKED_FOR.iter().find(|option| comment.contains(*option) && !has(option))?;
    Some(
        place.error(format!("Slurm takes `{taken}` in this comment for an option; write it without the `=`")),
    )
}
