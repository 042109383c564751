//! `forebay check`: everything that `forebay run` or `sbatch`, the stage-in and the stage-out would find wrong with a
//! script, without running it.

mod asked;
mod files;
mod tasks;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use model::Token;
use model::directive::{self, Directive};
use model::phase::Redundancy;
use model::sbatch;
use serde::Serialize;
use wire::control::{Script, one_machine};

use crate::arguments::{Check, Run};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::job::streams;
use crate::output::Output;
use crate::render;
use crate::run_record::RunRecord;
use crate::script::{self, Examined, Submission};

/// Something that is wrong.
#[derive(Debug)]
struct Mistake {
    exit: ExitCode,
    /// One line, or several where a failure has several.
    text: String,
}

impl From<Failure> for Mistake {
    fn from(failure: Failure) -> Mistake {
        Mistake { exit: failure.exit_code(), text: failure.to_string() }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    script: &'a Path,
    mistakes: Vec<&'a str>,
    notes: Vec<String>,
    asked: bool,
}

/// Checks; the result is the process's exit status.
///
/// # Errors
/// The script cannot be read.
pub async fn run(
    arguments: &Check,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    let folder = script::current_folder()?;
    let examined = script::examine(&arguments.script, &folder, &Run::default());
    let Examined { submission, failures } = match examined {
        Err(failure) if output.json() => {
            return Ok(tell_unread(&folder.join(&arguments.script), failure, output));
        }
        examined => examined?,
    };
    let is_ours = |failure: &Failure| !(cluster && failure.is_for_sbatch());
    let mut mistakes: Vec<Mistake> = failures.into_iter().filter(is_ours).map(Mistake::from).collect();
    mistakes.extend(submission.components.iter().flat_map(|part| tasks::mistakes(&submission, part)));
    let record = RunRecord::new(Token::unchecked("0"), submission.script.clone(), folder);
    mistakes.extend(streams::places(&record).err().map(Mistake::from));
    let mut notes: Vec<String> = tasks::note(&submission).into_iter().collect();
    for part in &submission.components {
        if cluster {
            mistakes.extend(forgotten(&submission, part));
        } else {
            mistakes.extend(of_one_machine(&part.directives, |line| submission.place(line)));
            notes.extend(needs_nodes(&part.directives));
        }
    }
    let is_asked = ask(&submission, cluster, output, dir, &mut mistakes, &mut notes).await;
    // A line of a task may say what that of another says, and control what was found here.
    let mut said = HashSet::new();
    mistakes.retain(|mistake| said.insert(mistake.text.clone()));
    Ok(tell(&submission.script, &mistakes, notes, is_asked, output))
}

/// Has control say what it finds wrong, and whether it was asked.
async fn ask(
    submission: &Submission,
    cluster: bool,
    output: &Output,
    dir: Option<PathBuf>,
    mistakes: &mut Vec<Mistake>,
    notes: &mut Vec<String>,
) -> bool {
    if !asked::is_of_use(submission) {
        let is_wrong = submission.components.iter().any(|part| !part.wrong.is_empty());
        let note = || "control was not asked: no line that asks for a buffer is right".to_owned();
        notes.extend(is_wrong.then(note));
        return false;
    }
    let Some(service) = asked::Service::find(cluster, output, dir) else {
        notes.push("no control service was asked: whether a pool has the room is not known".into());
        return false;
    };
    let answers = asked::ask(&service, submission).await;
    mistakes.extend(answers.mistakes);
    notes.extend(answers.notes);
    true
}

/// A line that Slurm takes no notice of.
fn forgotten(submission: &Submission, part: &script::Component) -> Option<Mistake> {
    let is_parted = submission.components.len() > 1;
    let error = sbatch::forgotten(&submission.script.text, &part.directives, is_parted)?;
    let in_script = error.line as usize <= submission.script.text.lines().count();
    let text = format!("{}: {}", submission.place(error.line), error.message);
    in_script.then_some(Mistake { exit: ExitCode::Script, text })
}

/// What this user's own control refuses, whether it runs now or not.
fn of_one_machine(
    directives: &directive::Script,
    place: impl Fn(u32) -> String,
) -> impl Iterator<Item = Mistake> {
    let refusals = one_machine::refusals(directives).into_iter();
    refusals.map(move |(line, error)| Mistake {
        exit: ExitCode::of_refusal(&error),
        text: format!("{}: {error}", place(line)),
    })
}

/// What a script that is right also needs of the command that runs it.
fn needs_nodes(directives: &directive::Script) -> Option<String> {
    let is_mirror = |directive: &Directive| match directive {
        Directive::JobDw(job) => job.behaviour.redundancy == Redundancy::Mirror,
        _ => false,
    };
    let needs = directives.directives.iter().any(|located| is_mirror(&located.directive));
    needs.then(|| "redundancy=mirror keeps each byte on two nodes: run it with --nodes 2, or more".into())
}

/// Refuses a command whose stages could not do what its options ask for, as far as that is seen here.
///
/// # Errors
/// A source is not there, or nothing can be made where something is to be staged out to: all of them.
pub fn refuse_wrong_places(submission: &Submission) -> Result<(), Failure> {
    let of = |part| files::mistakes(&part, |line| submission.place(line));
    let parts = submission.components.iter().map(|part| part.directives.clone());
    let mistakes: Vec<Mistake> = parts.flat_map(of).collect();
    let exit = match exit_code(&mistakes) {
        ExitCode::Success => return Ok(()),
        ExitCode::Script => ExitCode::Usage,
        exit => exit,
    };
    Err(Failure::Lines { exit, lines: mistakes.into_iter().map(|mistake| mistake.text).collect() })
}

/// Of a script that cannot be read: the only mistake that is known.
fn tell_unread(script: &Path, failure: Failure, output: &Output) -> u8 {
    output.note(&failure.shown());
    let mistake = Mistake::from(failure);
    output.object(&Report {
        schema: 1,
        script,
        mistakes: vec![&mistake.text],
        notes: Vec::new(),
        asked: false,
    });
    mistake.exit.number()
}

fn tell(script: &Script, mistakes: &[Mistake], notes: Vec<String>, asked: bool, output: &Output) -> u8 {
    let path = &script.path;
    let lines: Vec<&str> = mistakes.iter().flat_map(|mistake| mistake.text.lines()).collect();
    for line in &lines {
        // Those of directives name the script already.
        let is_named = line.starts_with(&*path.to_string_lossy());
        output.note(&if is_named { (*line).to_owned() } else { format!("{}: {line}", path.display()) });
    }
    for note in &notes {
        output.note(&format!("forebay: note: {note}"));
    }
    if output.json() {
        output.object(&Report { schema: 1, script: path, mistakes: lines, notes, asked });
    } else if mistakes.is_empty() {
        output.say(&format!("forebay: {} has no mistakes", path.display()));
    } else {
        let count = render::counted(lines.len() as u64, "mistake", "mistakes");
        output.say(&format!("forebay: {} has {count}", path.display()));
    }
    exit_code(mistakes).number()
}

/// A script that is wrong comes before files that are not there, and these before a service that cannot say.
fn exit_code(mistakes: &[Mistake]) -> ExitCode {
    let is = |code| mistakes.iter().any(|mistake| mistake.exit == code);
    let first = [ExitCode::Script, ExitCode::NoInput].into_iter().find(|code| is(*code));
    first.or_else(|| Some(mistakes.first()?.exit)).unwrap_or(ExitCode::Success)
}
