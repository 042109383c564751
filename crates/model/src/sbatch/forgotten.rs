//! Directives below the first command, of which Slurm makes nothing.

use crate::directive::{Script, ScriptError};

/// The first directive of `script` that Slurm forgets. Where a directive has a symbol, it gives the later functions
/// only the directives above the first command, and it replaces symbols only there; of a job that is
/// `heterogeneous` it takes no others at all.
pub fn forgotten(text: &str, script: &Script, heterogeneous: bool) -> Option<ScriptError> {
    let is_command = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let first_command = text.lines().position(|line| is_command(&line))?;
    let is_directive = |line: &&str| line.starts_with("#DW") || line.starts_with("#BB");
    let has_symbols = text.lines().filter(is_directive).any(|line| line.contains('%'));
    let why = match (heterogeneous, has_symbols) {
        (true, _) => "in a heterogeneous job",
        (false, true) => "if any directive has a symbol as %j",
        (false, false) => return None,
    };
    let late = script.directives.iter().find(|located| located.line as usize > first_command)?;
    let message = format!(
        "this directive stands below the first command, where Slurm forgets it {why}; move it above the first command"
    );
    Some(late.error_at("", message))
}
