//! The files of the tasks of an array: `%a` and `%b` are another in each.

use model::directive::{self, Located};
use model::symbols::{Symbols, for_array_task};

use super::{Mistake, files};
use crate::script::{self, Component, Submission, UNKNOWN};

/// Of so many tasks the files are looked at.
const TASKS_MAX: usize = 100;

/// Everything that is wrong with the files of `part`; those that differ from task to task are named with their task.
pub(super) fn mistakes(submission: &Submission, part: &Component) -> Vec<Mistake> {
    let place = |line| submission.place(line);
    let Some(array) = &submission.array else { return files::mistakes(&of_task(submission, part, 0), place) };
    let (one, other) = (of_task(submission, part, 0), of_task(submission, part, 1));
    let is_alike = |located: &Located| other.directives.contains(located);
    let mut found = files::mistakes(&filtered(&one, is_alike), place);
    if varies(submission, part) {
        for task in array.tasks().iter().take(TASKS_MAX) {
            let of_task = of_task(submission, part, *task);
            let own = filtered(&of_task, |located| !one.directives.contains(located) || !is_alike(located));
            found.extend(files::mistakes(&own, |line| format!("{}: task {task}", place(line))));
        }
    }
    found
}

/// Of an array of more tasks than are looked at: how many those are.
pub(super) fn note(submission: &Submission) -> Option<String> {
    let all = submission.array.as_ref()?.tasks().len();
    let is_large = all > TASKS_MAX && submission.components.iter().any(|part| varies(submission, part));
    is_large.then(|| format!("the files of the first {TASKS_MAX} of {all} tasks were looked at"))
}

/// Whether tasks have files of their own.
fn varies(submission: &Submission, part: &Component) -> bool {
    of_task(submission, part, 0) != of_task(submission, part, 1)
}

fn filtered(script: &directive::Script, keep: impl Fn(&Located) -> bool) -> directive::Script {
    directive::Script { directives: script.directives.iter().filter(|it| keep(it)).cloned().collect() }
}

fn of_task(submission: &Submission, part: &Component, task: u32) -> directive::Script {
    let text = for_array_task(&part.text, UNKNOWN, task);
    let symbols: Symbols = script::symbols(&submission.script, UNKNOWN);
    directive::understood(&text, &symbols).0
}
