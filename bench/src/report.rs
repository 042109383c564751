//! Lines of the results: medians, the table, and `results.json`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

/// What a line is about, before anything is measured.
#[derive(Clone, Debug)]
pub struct Line {
    /// What was measured, on what, with how many nodes.
    pub case: String,
    /// What both figures count.
    pub unit: &'static str,
    /// What the baseline is.
    pub against: &'static str,
    /// The least ratio that satisfies us; `None` for a line that is only shown.
    pub target: Option<f64>,
    /// What keeps the ratio below the target, where it is known.
    pub bound: Option<&'static str>,
}

/// One line of the results.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// See [`Line::case`].
    pub case: String,
    /// Ours: the median of all pairs.
    pub value: f64,
    /// See [`Line::unit`].
    pub unit: &'static str,
    /// What it is compared with: the median of all pairs.
    pub baseline: f64,
    /// What the baseline is.
    pub against: &'static str,
    /// The median of every pair's own ratio; more is better, whatever the unit.
    pub ratio: f64,
    /// See [`Line::target`].
    pub target: Option<f64>,
    /// See [`Line::bound`]; only where the target is missed.
    pub bound: Option<&'static str>,
}

impl Line {
    /// A line with a target.
    pub fn new(case: String, unit: &'static str, against: &'static str, target: f64) -> Line {
        Line { case, unit, against, target: Some(target), bound: None }
    }

    /// A line without one.
    pub fn shown(case: String, unit: &'static str, against: &'static str) -> Line {
        Line { case, unit, against, target: None, bound: None }
    }

    /// Medians over pairs of (ours, baseline), both rates: the ratio is ours / baseline.
    pub fn of(self, pairs: &[(f64, f64)]) -> Measurement {
        self.with_ratio(pairs, |ours, theirs| ours / theirs)
    }

    /// Medians over pairs of (ours, what it may be), both costs: the ratio is what it may be / ours.
    pub fn of_costs(self, pairs: &[(f64, f64)]) -> Measurement {
        self.with_ratio(pairs, |ours, may_be| may_be / ours)
    }

    fn with_ratio(self, pairs: &[(f64, f64)], ratio: impl Fn(f64, f64) -> f64) -> Measurement {
        let median_of =
            |value: &dyn Fn(f64, f64) -> f64| median(pairs.iter().map(|&(a, b)| value(a, b)).collect());
        let ratio = median_of(&ratio);
        let missed = self.target.is_some_and(|target| ratio < target);
        Measurement {
            case: self.case,
            value: median_of(&|ours, _| ours),
            unit: self.unit,
            baseline: median_of(&|_, theirs| theirs),
            against: self.against,
            ratio,
            target: self.target,
            bound: self.bound.filter(|_| missed),
        }
    }
}

impl Measurement {
    fn missed(&self) -> bool {
        self.target.is_some_and(|target| self.ratio < target)
    }
}

/// The middle one; of an even number, the upper middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Prints the table, and below it what bounds the lines that miss their targets.
pub fn print(measurements: &[Measurement]) {
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| drop(writeln!(out, "{text}"));
    let width = measurements.iter().map(|m| m.case.len()).max().unwrap_or(0);
    line(format!(
        "{:<width$} {:>10} {:>10} {:<6} {:>6} {:>7}",
        "", "ours", "baseline", "", "ratio", "target"
    ));
    for m in measurements {
        let target = m.target.map_or_else(|| "-".into(), |target| format!("{target:.2}"));
        let verdict = if m.missed() { "below target: " } else { "" };
        line(format!(
            "{:<width$} {:>10} {:>10} {:<6} {:>6.2} {target:>7}  {verdict}of {}",
            m.case,
            figure(m.value),
            figure(m.baseline),
            m.unit,
            m.ratio,
            m.against
        ));
    }
    for m in measurements.iter().filter(|m| m.missed()) {
        line(format!("{}: {}", m.case, m.bound.unwrap_or("below target for a reason not known yet")));
    }
}

/// Small figures need their decimals.
fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Writes them as a JSON array; the old file stays until the new one is whole.
pub fn write(measurements: &[Measurement], path: &Path) -> Result<()> {
    let unfinished = path.with_extension("json.tmp");
    fs::write(&unfinished, serde_json::to_string_pretty(measurements)? + "\n")?;
    Ok(fs::rename(&unfinished, path)?)
}

/// Something that the reader of the table should know.
pub fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat() -> Line {
        Line { bound: Some("the weather"), ..Line::new("stat".into(), "1/s", "the backing folder", 0.5) }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_not_of_the_sides() {
        let line = stat().of(&[(1.0, 2.0), (10.0, 10.0), (100.0, 25.0)]);
        assert_eq!((line.value, line.baseline, line.ratio), (10.0, 10.0, 1.0));
    }

    #[test]
    fn of_costs_the_smaller_is_the_better() {
        assert_eq!(stat().of_costs(&[(100.0, 200.0)]).ratio, 2.0);
    }

    #[test]
    fn a_bound_is_told_where_the_target_is_missed_and_only_there() {
        assert_eq!(stat().of(&[(1.0, 1.0)]).bound, None);
        assert_eq!(stat().of(&[(1.0, 4.0)]).bound, Some("the weather"));
    }

    #[test]
    fn the_results_have_the_agreed_fields() {
        let json = serde_json::to_value(stat().of(&[(2.0, 4.0)])).unwrap();
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["against", "baseline", "bound", "case", "ratio", "target", "unit", "value"]);
    }
}
