//! What `forebay status` says of a session's stages.

use std::time::Duration;

use model::phase::StageState;
use wire::control::{StageProgress, StageStatus};

use crate::output::Output;
use crate::progress::{self, Gauge};
use crate::retries;

/// How fast a stage has been since its start.
pub fn gauge(stage: &StageStatus) -> Gauge {
    let mut gauge = Gauge::default();
    gauge.observe(Duration::ZERO, &StageProgress::default());
    gauge.observe(Duration::from_millis(stage.elapsed_ms), &stage.progress);
    gauge
}

/// A line for each, and for one on demand that failed why and how it is done again.
pub fn lines(stages: &[StageStatus], output: &Output) -> Vec<String> {
    let (listed, more) = progress::listed(stages.iter());
    let mut lines = Vec::new();
    for stage in listed {
        lines.push(format!("  {}: {}", progress::title(stage), state(stage)));
        if let Some(command) = retries::command(stage, output) {
            lines.extend(retries::why(stage).map(|why| format!("    {why}")));
            lines.push(format!("    `{command}` does it again"));
        }
    }
    lines.extend((more > 0).then(|| format!("  and {more} more stages on demand, complete")));
    lines
}

fn state(stage: &StageStatus) -> String {
    match stage.state {
        StageState::Pending | StageState::Deferred => stage.state.word().to_owned(),
        StageState::Active => progress::describe(&stage.progress, &gauge(stage)),
        _ => progress::describe_end(stage),
    }
}
