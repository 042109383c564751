//! Progress on a terminal: one bar for each stage.

use std::collections::HashMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use model::phase::StageState;
use wire::control::StageStatus;

use super::{Gauge, describe, describe_end, title};

/// Steps of a bar: a fraction is enough, since the text says the numbers.
const STEPS: u64 = 1000;

/// The bars of one direction.
pub struct Bars {
    screen: MultiProgress,
    stages: HashMap<String, (ProgressBar, Gauge)>,
}

impl Bars {
    /// None yet.
    pub fn new(screen: MultiProgress) -> Bars {
        Bars { screen, stages: HashMap::new() }
    }

    /// Draws every stage that has begun; one that ended stays on the screen with its result.
    pub fn update<'a>(&mut self, at: Duration, stages: impl Iterator<Item = &'a StageStatus>) {
        for stage in stages.filter(|stage| stage.state != StageState::Deferred) {
            let (bar, gauge) = self
                .stages
                .entry(stage.id.clone())
                .or_insert_with(|| (self.screen.add(new_bar(stage)), Gauge::default()));
            if bar.is_finished() {
                continue;
            }
            gauge.observe(at, &stage.progress);
            bar.set_position(position(stage));
            match stage.state {
                StageState::Complete => bar.finish_with_message(describe_end(stage)),
                StageState::Failed => bar.abandon_with_message(describe_end(stage)),
                _ => bar.set_message(describe(&stage.progress, gauge)),
            }
        }
    }
}

fn new_bar(stage: &StageStatus) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix}\n  [{bar:30}] {msg}")
        .expect("the template is a constant")
        .progress_chars("=> ");
    ProgressBar::new(STEPS).with_style(style).with_prefix(title(stage))
}

/// Unknown totals show an empty bar rather than one that runs backwards.
fn position(stage: &StageStatus) -> u64 {
    let progress = &stage.progress;
    if stage.state == StageState::Complete {
        return STEPS;
    }
    if !progress.planned || progress.bytes_total == 0 {
        return 0;
    }
    let share = u128::from(progress.bytes_done) * u128::from(STEPS) / u128::from(progress.bytes_total);
    u64::try_from(share).unwrap_or(STEPS).min(STEPS)
}
