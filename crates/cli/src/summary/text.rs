//! The summary for people.

use std::time::Duration;

use model::Token;
use model::phase::{Direction, Function, StageState};
use wire::control::StageStatus;

use super::{JobSummary, PhaseName, StageSummary, Summary};
use crate::{progress, render};

/// As many places with results as people are shown; programs get all.
const RESULTS_SHOWN: usize = 10;

/// As many remarks of a stage as people are shown.
const REMARKS_SHOWN: usize = 3;

impl Summary {
    /// For people; several lines, no line break at the end.
    pub fn text(&self) -> String {
        let mut lines = vec![self.headline()];
        for (function, elapsed_ms) in self.steps() {
            let time =
                elapsed_ms.map_or("failed".to_owned(), |time| render::span(Duration::from_millis(time)));
            lines.push(format!("  {:<10} {time:>12}", function.shown()));
            lines.extend(direction_of(function).into_iter().flat_map(|direction| self.stages_of(direction)));
        }
        lines.extend(self.results.iter().take(RESULTS_SHOWN).map(|result| format!("  results in {result}")));
        let more = self.results.len().saturating_sub(RESULTS_SHOWN);
        lines.extend((more > 0).then(|| format!("  and in {more} more places")));
        if let Some(error) = self.error.as_ref() {
            lines.push(format!("  error      {error}"));
        }
        if let (Some(kept), Some(token)) = (&self.kept, &self.token) {
            lines.push(format!("  kept       buffer {token}: {kept}"));
            lines.extend(self.advice.iter().map(|command| format!("             {command}")));
        }
        lines.join("\n")
    }

    /// The steps in the order of a life, with their times; those that failed are not among the completed ones that
    /// control has times of.
    fn steps(&self) -> Vec<(PhaseName, Option<u64>)> {
        let mut steps: Vec<_> =
            self.phases.iter().map(|phase| (phase.phase, Some(phase.elapsed_ms))).collect();
        for (function, direction) in [(Function::DataIn, Direction::In), (Function::DataOut, Direction::Out)]
        {
            let name = PhaseName::Function(function);
            let is_failed = |stage: &StageSummary| {
                stage.status.direction == direction && stage.status.state == StageState::Failed
            };
            if steps.iter().all(|(known, _)| *known != name) && self.stages.iter().any(is_failed) {
                let teardown = PhaseName::Function(Function::Teardown);
                let place = steps.iter().position(|(known, _)| *known == teardown).unwrap_or(steps.len());
                steps.insert(place, (name, None));
            }
        }
        steps
    }

    fn headline(&self) -> String {
        let name = self.job_name.as_deref().unwrap_or("job");
        let token = self.token.as_ref().map_or("none", Token::as_str);
        let job = match (&self.job, self.outcome) {
            (Some(JobSummary { signal: Some(signal), .. }), _) => format!("job killed by signal {signal}"),
            (Some(job), _) => format!("job exit status {}", job.exit_status),
            (None, "completed" | "stage_out_failed") => "how its job ended is not known".to_owned(),
            (None, _) if self.started => "the job was ended".to_owned(),
            (None, _) => "the job did not run".to_owned(),
        };
        let outcome = self.outcome.replace('_', " ");
        format!("forebay: session {token} ({name}): {outcome}, {job}")
    }

    fn stages_of(&self, direction: Direction) -> Vec<String> {
        let stages = self.stages.iter().map(|stage| &stage.status);
        let (listed, more) = progress::listed(stages.filter(|stage| stage.direction == direction));
        let lines = listed.into_iter().flat_map(|stage| {
            let (title, end) = (progress::title(stage), progress::describe_end(stage));
            [format!("    {title}"), format!("      {end}")].into_iter().chain(remarks(stage))
        });
        lines.chain((more > 0).then(|| format!("    and {more} more on demand"))).collect()
    }
}

/// Which stages are part of a step.
fn direction_of(step: PhaseName) -> Option<Direction> {
    match step {
        PhaseName::Function(Function::DataIn) => Some(Direction::In),
        PhaseName::Function(Function::DataOut) => Some(Direction::Out),
        _ => None,
    }
}

/// What a stage could not keep, and what it tried again: a buffer that is gone is asked for it in vain.
fn remarks(stage: &StageStatus) -> impl Iterator<Item = String> {
    let shown = stage.notes.remarks.iter().take(REMARKS_SHOWN);
    let lines: Vec<String> =
        shown.map(|remark| format!("      remark: {}: {}", remark.path, remark.text)).collect();
    let shown = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let more = stage.notes.remarks_total.saturating_sub(shown);
    let more = (more > 0).then(|| {
        format!("      and {}; --json has up to 100", render::counted(more, "more remark", "more remarks"))
    });
    lines.into_iter().chain(more)
}
