//! What a script says, component by component: most have one, a heterogeneous job has several.

use std::path::Path;

use model::directive::{self, ScriptError};
use model::sbatch::{self, Request};
use model::symbols::Symbols;
use wire::control::Script;

use super::symbols;
use crate::directives::Added;
use crate::exit_code::ExitCode;
use crate::failure::Failure;

/// A job's number while nobody has it.
pub const UNKNOWN: &str = "<job-id>";

/// What is asked for in one part of a script.
#[derive(Debug)]
pub struct Component {
    /// The whole script, without what other parts ask for. At its end is what options ask for.
    pub text: String,
    /// The directives that are well written.
    pub directives: directive::Script,
    /// What is wrong with the others.
    pub wrong: Vec<ScriptError>,
}

impl Component {
    fn of(text: String, symbols: &Symbols) -> Component {
        let (directives, mut wrong) = directive::understood(&text, symbols);
        wrong.extend(directive::unsupported(&directives));
        Component { text, directives, wrong }
    }
}

/// The components of `script`, to which `added` adds; and what is wrong with them. Files that options name are looked
/// up from `folder`.
pub(super) fn read(script: &Script, added: &Added, folder: &Path) -> (Vec<Component>, Vec<Failure>) {
    // No token is known yet. `0` has the form of one, which is all that a check needs.
    let symbols = symbols(script, "0");
    let mut failures = Vec::new();
    let of = |mut text: String| {
        for request in sbatch::parse(&text).burst_buffer {
            match requested(&request, folder) {
                Ok(lines) => text = format!("{}\n{}\n", text.trim_end_matches('\n'), lines),
                Err(failure) => failures.push(failure),
            }
        }
        Component::of(added.to(&text), &symbols)
    };
    let components: Vec<Component> = sbatch::components(&script.text).into_iter().map(of).collect();
    failures.extend(refusal(script, added, &components));
    (components, failures)
}

/// Where a line of a component stands.
pub fn place(script: &Script, added: &Added, line: u32) -> String {
    if let Some(option) = added.option(&script.text, line) {
        return format!("forebay: {option}");
    }
    let path = script.path.display();
    match line as usize > script.text.lines().count() {
        true => format!("{path}: #SBATCH --bb"),
        false => format!("{path}: line {line}"),
    }
}

fn refusal(script: &Script, added: &Added, components: &[Component]) -> Option<Failure> {
    let is_empty = |part: &Component| part.directives.directives.is_empty() && part.wrong.is_empty();
    if components.iter().all(is_empty) {
        let message = format!("{} has no #DW directives, so it needs no buffer", script.path.display());
        let advice = "add one as `#DW jobdw capacity=10GiB access_mode=striped type=scratch`, give --capacity, or run \
                      it without forebay";
        return Some(Failure::ForSbatch { message, advice });
    }
    let mut errors: Vec<&ScriptError> = components.iter().flat_map(|part| &part.wrong).collect();
    let is_of_option = |error: &&ScriptError| added.option(&script.text, error.line).is_some();
    // Where one path stands for both sides, what is wrong with it is said once.
    let is_one_path =
        |error: &ScriptError| added.option(&script.text, error.line).is_some_and(|it| !it.contains(':'));
    errors.dedup_by(|next, first| next.line == first.line && is_one_path(first));
    let line = |error: &&ScriptError| {
        let place = place(script, added, error.line);
        let is_of_option = is_of_option(error);
        match is_of_option || error.line as usize > script.text.lines().count() {
            true if is_of_option => format!("{place}: {}", of_command_line(&error.message)),
            true => format!("{place}: {}", error.message),
            false => format!("{place}, column {}: {}", error.column, error.message),
        }
    };
    let exit = if errors.iter().all(is_of_option) { ExitCode::Usage } else { ExitCode::Script };
    (!errors.is_empty()).then(|| Failure::Lines { exit, lines: errors.iter().map(line).collect() })
}

/// What is wrong with an option, where a shell has seen the command line: what to write in a directive is no use.
fn of_command_line(message: &str) -> String {
    let named = message.split('`').nth(1).unwrap_or_default();
    if message.contains("has a wildcard") {
        return format!(
            "`{named}` has a wildcard, which no shell replaced; name the folder, or each file in an option of its own"
        );
    }
    if message.contains("looks like a shell variable") {
        return format!("no shell replaced the variable `{named}`; write it outside of single quotes");
    }
    message.to_owned()
}

/// The directives that Slurm makes of an option.
fn requested(request: &Request, folder: &Path) -> Result<String, Failure> {
    let Request { option, value } = request;
    if option == "--bbf" {
        return std::fs::read_to_string(folder.join(value)).map_err(|error| {
            Failure::no_input(format!("read the file {value} of #SBATCH --bbf: {error}"), "correct its path")
        });
    }
    if value.starts_with('#') {
        return Ok(value.clone());
    }
    // Whatever else stands there is passed over.
    let named = [("capacity", "capacity"), ("access", "access_mode"), ("type", "type"), ("pool", "pool")];
    let of = |(ours, theirs): (&str, &str)| {
        let words = value.split([' ', ',']).filter_map(|word| word.split_once('='));
        let mut values = words.filter(|(name, _)| *name == ours).map(|(_, value)| value);
        values.next().map(|value| format!(" {theirs}={value}"))
    };
    Ok(format!("#DW jobdw{}", named.into_iter().filter_map(of).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_asks_for_what_slurm_makes_of_it() {
        let of = |value: &str| {
            let request = Request { option: "--bb".into(), value: value.into() };
            requested(&request, Path::new("/")).unwrap()
        };
        let whole = "capacity=1GiB access=striped type=scratch";
        assert_eq!(of(whole), "#DW jobdw capacity=1GiB access_mode=striped type=scratch");
        assert_eq!(of("type=scratch pool=a"), "#DW jobdw type=scratch pool=a");
        assert_eq!(of("#DW persistentdw name=a"), "#DW persistentdw name=a");
    }
}
