//! Progress of stages: what the numbers mean (here), and how a terminal ([`bars`]) or a file ([`lines`]) shows them.

mod bars;
mod lines;

use std::collections::{HashSet, VecDeque};
use std::io::IsTerminal;
use std::time::Duration;

use model::phase::{Direction, StageState};
use wire::control::{ErrorCode, StageProgress, StageStatus};

use crate::output::Output;
use crate::render;

/// The rate is that of the last so many seconds: long enough to be steady over files of different sizes, short enough
/// to show a change.
const WINDOW: Duration = Duration::from_secs(5);

/// How fast one stage goes.
///
/// A byte is work twice where the stage's policy says so, once copied and once read back and compared, so the time left
/// is that of both.
#[derive(Debug, Default)]
pub struct Gauge {
    samples: VecDeque<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Duration,
    copied: u64,
    work: u64,
}

impl Gauge {
    /// Adds what the stage reports at the time `at` after any fixed start.
    pub fn observe(&mut self, at: Duration, progress: &StageProgress) {
        let copied = progress.bytes_done;
        // A retried stage starts from 0 again: older samples belong to another attempt.
        if self.samples.back().is_some_and(|last| last.copied > copied || last.at > at) {
            self.samples.clear();
        }
        self.samples.push_back(Sample { at, copied, work: copied.saturating_add(progress.bytes_verified) });
        while self.samples.len() > 2 && self.samples[1].at + WINDOW < at {
            self.samples.pop_front();
        }
    }

    /// Bytes copied in a second.
    pub fn rate(&self) -> Option<f64> {
        self.slope(|sample| sample.copied)
    }

    /// Time until every byte is copied and verified; `None` while the total is not known or nothing moves.
    pub fn left(&self, progress: &StageProgress) -> Option<Duration> {
        if !progress.planned {
            return None;
        }
        let work = self.slope(|sample| sample.work).filter(|slope| *slope > 0.0)?;
        let done = progress.bytes_done.saturating_add(progress.bytes_verified);
        let rest = progress.bytes_total.saturating_add(progress.bytes_to_verify).saturating_sub(done);
        #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
        Duration::try_from_secs_f64(rest as f64 / work).ok()
    }

    fn slope(&self, value: impl Fn(&Sample) -> u64) -> Option<f64> {
        let (first, last) = (self.samples.front()?, self.samples.back()?);
        render::mean_rate(value(last).saturating_sub(value(first)), last.at.checked_sub(first.at)?)
    }
}

/// A stage's counters in one line: `12 MiB of 38 MiB, 3 of 10 entries, 110 MiB/s, 0.2 s left`.
pub fn describe(progress: &StageProgress, gauge: &Gauge) -> String {
    let mut parts = Vec::new();
    if progress.planned {
        parts.push(format!(
            "{} of {}",
            render::bytes(progress.bytes_done),
            render::bytes(progress.bytes_total)
        ));
        parts.push(format!("{} of {} entries", progress.entries_done, progress.entries_total));
    } else {
        parts.push(format!("{} so far", render::bytes(progress.bytes_done)));
        parts.push(format!("{} found", render::counted(progress.entries_total, "entry", "entries")));
    }
    if progress.entries_failed > 0 {
        parts.push(format!("{} failed", progress.entries_failed));
    }
    let copied = progress.planned && progress.bytes_done >= progress.bytes_total;
    if copied && progress.bytes_verified < progress.bytes_to_verify {
        parts.push(format!("{} verified", render::bytes(progress.bytes_verified)));
    } else if let Some(rate) = gauge.rate() {
        parts.push(render::rate(rate));
    }
    if let Some(left) = gauge.left(progress).filter(|left| !left.is_zero()) {
        parts.push(format!("{} left", render::span(left)));
    }
    parts.join(", ")
}

/// How a stage ended, in one line.
pub fn describe_end(stage: &StageStatus) -> String {
    let progress = &stage.progress;
    let elapsed = Duration::from_millis(stage.elapsed_ms);
    let mut line = format!(
        "{}, {}, {}",
        render::bytes(progress.bytes_done),
        render::counted(progress.entries_done, "entry", "entries"),
        render::span(elapsed)
    );
    if let Some(rate) = render::mean_rate(progress.bytes_done, elapsed) {
        line += &format!(", {}", render::rate(rate));
    }
    match stage.state {
        StageState::Complete => line += ", verified",
        StageState::Failed if is_cancelled(stage) => line += ", cancelled",
        StageState::Failed => {
            line += ", FAILED";
            let left = not_copied(stage);
            if left > 0 {
                line += &format!(" ({} not copied)", render::counted(left, "entry", "entries"));
            }
        }
        state => line += &format!(", {}", state.word()),
    }
    line
}

/// Whether its user stopped it: then nothing is wrong with it.
fn is_cancelled(stage: &StageStatus) -> bool {
    stage.error.as_ref().is_some_and(|error| error.code == ErrorCode::Cancelled)
}

/// Entries that are not at the destination, as far as is known.
fn not_copied(stage: &StageStatus) -> u64 {
    let known = stage.progress.entries_total.saturating_sub(stage.progress.entries_done);
    known.max(stage.progress.entries_failed)
}

/// A stage's name in one line: `stage_in /pfs/a -> $DW_JOB_STRIPED/a`.
pub fn title(stage: &StageStatus) -> String {
    let name = match stage.direction {
        Direction::In => "stage_in",
        Direction::Out => "stage_out",
    };
    let line = if stage.source == stage.destination {
        format!("{name} list {}", stage.source)
    } else {
        format!("{name} {} -> {}", stage.source, stage.destination)
    };
    render::on_one_line(&line)
}

/// As many complete stages on demand as are listed.
const ON_DEMAND_LISTED: usize = 10;

/// The stages to list: of those on demand that are complete only some, as a program may have asked for thousands; and
/// how many are left out.
pub fn listed<'a>(stages: impl Iterator<Item = &'a StageStatus>) -> (Vec<&'a StageStatus>, usize) {
    let (mut of_many, mut left_out) = (0, 0);
    let is_listed = |stage: &&StageStatus| {
        if !stage.is_on_demand() || stage.state != StageState::Complete {
            return true;
        }
        of_many += 1;
        left_out = usize::saturating_sub(of_many, ON_DEMAND_LISTED);
        left_out == 0
    };
    (stages.filter(is_listed).collect(), left_out)
}

/// Shows the stages of one direction while they run.
pub struct View {
    direction: Direction,
    shown: Shown,
    /// Stages on demand that were seen before they were complete: of others nothing is left to say.
    begun: HashSet<String>,
}

enum Shown {
    Bars(bars::Bars),
    Lines(lines::Lines),
}

impl View {
    /// Bars where standard error is a terminal, lines elsewhere.
    pub fn new(direction: Direction, output: &Output) -> View {
        let shown = if std::io::stderr().is_terminal() {
            Shown::Bars(bars::Bars::new(output.bars().clone()))
        } else {
            Shown::Lines(lines::Lines::default())
        };
        View { direction, shown, begun: HashSet::new() }
    }

    /// Shows the stages as they are at the time `at` after the view's start.
    pub fn update(&mut self, at: Duration, stages: &[StageStatus], output: &Output) {
        let is_old = |stage: &&StageStatus| {
            stage.is_on_demand() && stage.state == StageState::Complete && !self.begun.contains(&stage.id)
        };
        let ours = stages.iter().filter(|stage| stage.direction == self.direction && !is_old(stage));
        let ours: Vec<&StageStatus> = ours.collect();
        self.begun.extend(ours.iter().filter(|stage| stage.is_on_demand()).map(|stage| stage.id.clone()));
        let lines = match &mut self.shown {
            Shown::Bars(bars) => bars.update(at, ours.into_iter()),
            Shown::Lines(lines) => lines.update(at, ours.into_iter()),
        };
        for line in lines {
            output.note(&line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(done: u64, verified: u64, planned: bool) -> StageProgress {
        StageProgress {
            entries_total: 10,
            entries_done: 1,
            bytes_total: 100 << 20,
            bytes_done: done << 20,
            bytes_verified: verified << 20,
            bytes_to_verify: 100 << 20,
            entries_failed: 0,
            planned,
            ..StageProgress::default()
        }
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_stages_title_is_one_line_whatever_its_paths_are() {
        let stage = StageStatus { source: "$DW_JOB_STRIPED/a\nb".into(), ..crate::fixtures::stage_in() };
        assert_eq!(title(&stage), r"stage_in $DW_JOB_STRIPED/a\nb -> $DW_JOB_STRIPED/stars");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds_only() {
        let mut gauge = Gauge::default();
        gauge.observe(seconds(0), &progress(0, 0, true));
        gauge.observe(seconds(1), &progress(50, 0, true));
        for second in 2..12 {
            gauge.observe(seconds(second), &progress(50 + second, 0, true));
        }
        assert_eq!(gauge.rate(), Some(f64::from(1 << 20)));
    }

    #[test]
    fn the_time_left_counts_verification_as_work() {
        let mut gauge = Gauge::default();
        gauge.observe(seconds(0), &progress(0, 0, true));
        gauge.observe(seconds(2), &progress(50, 10, true));
        // 60 MiB of work in 2 s, 140 MiB are left.
        let left = gauge.left(&progress(50, 10, true)).unwrap();
        assert!((left.as_secs_f64() - 140.0 / 30.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_is_promised_before_the_total_is_known_or_while_nothing_moves() {
        let mut gauge = Gauge::default();
        gauge.observe(seconds(0), &progress(5, 0, false));
        gauge.observe(seconds(1), &progress(9, 0, false));
        assert_eq!(gauge.left(&progress(9, 0, false)), None);
        let mut still = Gauge::default();
        still.observe(seconds(0), &progress(5, 0, true));
        still.observe(seconds(1), &progress(5, 0, true));
        assert_eq!(still.left(&progress(5, 0, true)), None);
    }

    #[test]
    fn a_second_attempt_does_not_mix_with_the_first() {
        let mut gauge = Gauge::default();
        gauge.observe(seconds(0), &progress(80, 0, true));
        gauge.observe(seconds(1), &progress(0, 0, true));
        gauge.observe(seconds(2), &progress(3, 0, true));
        assert_eq!(gauge.rate(), Some(f64::from(3 << 20)));
    }

    #[test]
    fn the_line_says_bytes_entries_rate_and_time_left() {
        let mut gauge = Gauge::default();
        gauge.observe(seconds(0), &progress(0, 0, true));
        gauge.observe(seconds(1), &progress(50, 50, true));
        assert_eq!(
            describe(&progress(50, 50, true), &gauge),
            "50 MiB of 100 MiB, 1 of 10 entries, 50 MiB/s, 1.0 s left"
        );
    }
}
