//! Progress on a terminal: a bar for each stage that runs, and a line for each that has ended.
//!
//! **Invariant:** no bar outlives its stage. What is drawn is taken back by moving the cursor up, which would wipe the
//! output of a job that came in between.

use std::collections::{HashMap, HashSet};
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
    running: HashMap<String, (ProgressBar, Gauge)>,
    ended: HashSet<String>,
}

impl Bars {
    /// None yet.
    pub fn new(screen: MultiProgress) -> Bars {
        Bars { screen, running: HashMap::new(), ended: HashSet::new() }
    }

    /// Draws every stage that runs; returns the lines to say for those that have ended since.
    pub fn update<'a>(&mut self, at: Duration, stages: impl Iterator<Item = &'a StageStatus>) -> Vec<String> {
        let mut lines = Vec::new();
        for stage in stages {
            match stage.state {
                StageState::Pending | StageState::Deferred => {}
                StageState::Active => self.draw(at, stage),
                StageState::Complete | StageState::Failed => {
                    if let Some((bar, _)) = self.running.remove(&stage.id) {
                        self.take_back(&bar);
                    }
                    if self.ended.insert(stage.id.clone()) {
                        lines.push(format!("{}: {}", title(stage), describe_end(stage)));
                    }
                }
            }
        }
        lines
    }

    fn draw(&mut self, at: Duration, stage: &StageStatus) {
        let new = || (self.screen.add(new_bar(stage)), Gauge::default());
        let (bar, gauge) = self.running.entry(stage.id.clone()).or_insert_with(new);
        gauge.observe(at, &stage.progress);
        bar.set_position(position(stage));
        bar.set_message(describe(&stage.progress, gauge));
    }

    fn take_back(&self, bar: &ProgressBar) {
        bar.finish_and_clear();
        self.screen.remove(bar);
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        for (bar, _) in self.running.values() {
            self.take_back(bar);
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
    if !progress.planned || progress.bytes_total == 0 {
        return 0;
    }
    let share = u128::from(progress.bytes_done) * u128::from(STEPS) / u128::from(progress.bytes_total);
    u64::try_from(share).unwrap_or(STEPS).min(STEPS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use indicatif::ProgressDrawTarget;

    #[test]
    fn a_bar_ends_with_its_stage_and_becomes_one_line() {
        let mut bars = Bars::new(MultiProgress::with_draw_target(ProgressDrawTarget::hidden()));
        let mut stage = fixtures::stage_in();
        stage.state = StageState::Active;
        assert!(bars.update(Duration::ZERO, std::iter::once(&stage)).is_empty());
        assert_eq!(bars.running.len(), 1);
        stage.state = StageState::Complete;
        assert_eq!(bars.update(Duration::ZERO, std::iter::once(&stage)).len(), 1);
        assert!(bars.running.is_empty());
        assert!(bars.update(Duration::ZERO, std::iter::once(&stage)).is_empty());
    }

    #[test]
    fn a_bar_is_as_long_as_what_is_copied() {
        let mut stage = fixtures::stage_in();
        assert_eq!(position(&stage), STEPS);
        stage.progress.bytes_done /= 2;
        assert_eq!(position(&stage), STEPS / 2);
        stage.progress.planned = false;
        assert_eq!(position(&stage), 0);
    }
}
