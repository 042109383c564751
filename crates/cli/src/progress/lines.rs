//! Progress in a log: a line when a stage begins, one about every five seconds, one when it ends.

use std::collections::HashMap;
use std::time::Duration;

use model::phase::StageState;
use wire::control::StageStatus;

use super::{Gauge, describe, describe_end, title};

const INTERVAL: Duration = Duration::from_secs(5);

/// What was said of the stages of one direction.
#[derive(Default)]
pub struct Lines {
    stages: HashMap<String, Said>,
}

struct Said {
    gauge: Gauge,
    last: Duration,
    ended: bool,
}

impl Lines {
    /// The lines to say now.
    pub fn update<'a>(&mut self, at: Duration, stages: impl Iterator<Item = &'a StageStatus>) -> Vec<String> {
        let mut lines = Vec::new();
        for stage in stages.filter(|stage| begun(stage)) {
            let said = self.stages.entry(stage.id.clone()).or_insert_with(|| {
                lines.push(title(stage));
                Said { gauge: Gauge::default(), last: at, ended: false }
            });
            said.gauge.observe(at, &stage.progress);
            if said.ended {
                continue;
            }
            if matches!(stage.state, StageState::Complete | StageState::Failed) {
                said.ended = true;
                lines.push(format!("{}: {}", title(stage), describe_end(stage)));
            } else if at.saturating_sub(said.last) >= INTERVAL {
                said.last = at;
                lines.push(format!("{}: {}", title(stage), describe(&stage.progress, &said.gauge)));
            }
        }
        lines
    }
}

fn begun(stage: &StageStatus) -> bool {
    !matches!(stage.state, StageState::Deferred | StageState::Pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_stage_is_announced_followed_and_concluded_once() {
        let mut lines = Lines::default();
        let mut stage = fixtures::stage_in();
        let mut said = |second: u64, stage: &StageStatus| {
            lines.update(Duration::from_secs(second), std::iter::once(stage)).len()
        };
        stage.state = StageState::Pending;
        assert_eq!(said(0, &stage), 0);
        stage.state = StageState::Active;
        assert_eq!(said(1, &stage), 1);
        assert_eq!(said(2, &stage), 0);
        assert_eq!(said(6, &stage), 1);
        stage.state = StageState::Complete;
        assert_eq!(said(7, &stage), 1);
        assert_eq!(said(20, &stage), 0);
    }

    #[test]
    fn a_stage_that_is_over_before_it_was_seen_is_still_announced() {
        let stage = fixtures::stage_in();
        let lines = Lines::default().update(Duration::ZERO, std::iter::once(&stage));
        assert_eq!(lines[0], "stage_in /pfs/stars -> $DW_JOB_STRIPED/stars");
        assert!(lines[1].ends_with("38 MiB, 4 entries, 2.0 s, 19 MiB/s, verified"), "{}", lines[1]);
    }
}
