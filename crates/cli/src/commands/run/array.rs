//! The tasks of an array, one after the other: each is a job of its own, with a buffer of its own.

use std::future::pending;
use std::path::Path;

use model::sbatch::Array;

use super::{live, register};
use crate::arguments::Run;
use crate::commands::Context;
use crate::failure::Failure;
use crate::render;
use crate::run_record::{ArrayTask, RunRecord};
use crate::script::Submission;

/// Runs every task; the result is the highest of their exit statuses.
///
/// # Errors
/// What keeps a task from having a session; the tasks after it are not run.
pub(super) async fn run(
    context: &Context,
    arguments: &Run,
    submission: &Submission,
    array: &Array,
) -> Result<u8, Failure> {
    let (mut first, mut highest) = (None, 0);
    for task in array.tasks().iter().copied() {
        let place = |token: &model::Token| {
            let job_id = first.clone().unwrap_or_else(|| token.clone());
            Some(ArrayTask { job_id, task, list: array.text().to_owned() })
        };
        let (lock, record, notes) = register(context, arguments, submission, place).await?;
        first.get_or_insert_with(|| record.token.clone());
        context.output.note(&format!("forebay: task {task} of array {}", array.text()));
        highest = highest.max(live(context, lock, record.clone(), notes, pending()).await);
        if context.interrupts.requested() {
            say_what_follows(context, &record, "that have not run");
            break;
        }
    }
    Ok(highest)
}

/// Says which tasks of the array come after that of `record`, what is known of them, and how to run them.
pub(super) fn say_what_follows(context: &Context, record: &RunRecord, how: &str) {
    let Some(array) = &record.array_task else { return };
    let Some(rest) = Array::parse(&array.list).and_then(|list| list.after(array.task)) else { return };
    let mut words = vec![format!("run --array={rest}")];
    words.extend(record.fragments.map(|nodes| format!("--nodes {nodes}")));
    words.extend(record.added.words().map(str::to_owned));
    words.push(render::word(&record.script.path));
    words.extend(record.arguments.iter().map(|word| render::word(Path::new(word))));
    let command = context.output.command(&words.join(" "));
    context.output.note(&format!("forebay: tasks of the array {how}: {rest}; `{command}` runs them"));
}
