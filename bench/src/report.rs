//! Lines of the results: medians, the table, and `results.json`.

use std::borrow::Cow;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

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
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// See [`Line::case`].
    pub case: String,
    /// Ours: the median of all pairs.
    pub value: f64,
    /// See [`Line::unit`].
    pub unit: Cow<'static, str>,
    /// What it is compared with: the median of all pairs.
    pub baseline: f64,
    /// What the baseline is.
    pub against: Cow<'static, str>,
    /// The median of every pair's own ratio; more is better, whatever the unit.
    pub ratio: f64,
    /// See [`Line::target`].
    pub target: Option<f64>,
    /// See [`Line::bound`]; only where the target is missed.
    pub bound: Option<Cow<'static, str>>,
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

    /// Says what keeps the ratio below the target.
    pub fn bounded_by(self, text: &'static str) -> Line {
        Line { bound: Some(text), ..self }
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
            unit: self.unit.into(),
            baseline: median_of(&|_, theirs| theirs),
            against: self.against.into(),
            ratio,
            target: self.target,
            bound: self.bound.filter(|_| missed).map(Cow::Borrowed),
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
    let mut told = Vec::new();
    for bound in measurements.iter().filter(|m| m.missed()).map(|m| m.bound.as_deref().unwrap_or(UNKNOWN)) {
        if !told.contains(&bound) {
            told.push(bound);
            line(String::new());
            let same =
                measurements.iter().filter(|m| m.missed() && m.bound.as_deref().unwrap_or(UNKNOWN) == bound);
            same.for_each(|m| line(m.case.clone()));
            line(format!("    {bound}"));
        }
    }
}

/// What is said of a target that is missed and was not looked into.
const UNKNOWN: &str = "below target for a reason that is not known yet";

/// Small figures need their decimals.
fn figure(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}

/// Writes them as a JSON array; the old file stays until the new one is whole. Of a run of some groups, `keep` keeps
/// the lines of the others where they are.
pub fn write(measurements: &[Measurement], path: &Path, keep: bool) -> Result<()> {
    let old = match fs::read_to_string(path) {
        Ok(text) if keep => lines_of(&text)?,
        Err(error) if keep && error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => Vec::new(),
    };
    let lines: Vec<String> = merged(old, measurements.to_vec())
        .into_iter()
        .map(|(line, text)| text.map_or_else(|| shown(&line), Ok))
        .collect::<serde_json::Result<_>>()?;
    let unfinished = path.with_extension("json.tmp");
    fs::write(&unfinished, format!("[\n  {}\n]\n", lines.join(",\n  ")))?;
    Ok(fs::rename(&unfinished, path)?)
}

/// A line as it stands in the array.
fn shown(line: &Measurement) -> serde_json::Result<String> {
    Ok(serde_json::to_string_pretty(line)?.replace('\n', "\n  "))
}

/// A line, and its text where it was in the file: a figure that is read and written again may end differently.
type Written = (Measurement, Option<String>);

/// The lines of a file.
fn lines_of(text: &str) -> Result<Vec<Written>> {
    let mut lines = Vec::new();
    let mut rest = text.trim_start().strip_prefix('[').context("the results are no JSON array")?;
    loop {
        rest = rest.trim_start_matches([',', ' ', '\n']);
        if rest.starts_with(']') {
            return Ok(lines);
        }
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Measurement>();
        let line = stream.next().context("the results end within the array")??;
        let (own, after) = rest.split_at(stream.byte_offset());
        lines.push((line, Some(own.to_owned())));
        rest = after;
    }
}

/// The old lines, each replaced by the new one of the same case, and after them the other new ones.
fn merged(old: Vec<Written>, mut new: Vec<Measurement>) -> Vec<Written> {
    // Some cases have several lines, each against something else.
    let same = |a: &Measurement, b: &Measurement| (&a.case, &a.against) == (&b.case, &b.against);
    let replaced = |line: Written| match new.iter().position(|fresh| same(fresh, &line.0)) {
        Some(place) => (new.remove(place), None),
        None => line,
    };
    let mut lines: Vec<Written> = old.into_iter().map(replaced).collect();
    lines.extend(new.into_iter().map(|line| (line, None)));
    lines
}

/// Something that the reader of the table should know.
pub fn note(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat() -> Line {
        Line::new("stat".into(), "1/s", "the backing folder", 0.5).bounded_by("the weather")
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
        assert_eq!(stat().of(&[(1.0, 4.0)]).bound.as_deref(), Some("the weather"));
    }

    #[test]
    fn a_run_of_some_groups_keeps_the_lines_of_the_others() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let other = Line::shown("open".into(), "1/s", "nothing");
        write(&[other.clone().of(&[(1.0, 1.0)]), stat().of(&[(1.0, 1.0)])], file.path(), false).unwrap();
        let more = Line::shown("sync".into(), "1/s", "nothing").of(&[(1.0, 1.0)]);
        write(&[stat().of(&[(9.0, 1.0)]), more], file.path(), true).unwrap();
        let text = fs::read_to_string(file.path()).unwrap();
        let lines: Vec<Measurement> = serde_json::from_str(&text).unwrap();
        write(&[], file.path(), true).unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), text, "not a digit is another");
        let shown: Vec<_> = lines.iter().map(|line| (line.case.as_str(), line.value)).collect();
        assert_eq!(shown, [("open", 1.0), ("stat", 9.0), ("sync", 1.0)]);
    }

    #[test]
    fn the_results_have_the_agreed_fields() {
        let json = serde_json::to_value(stat().of(&[(2.0, 4.0)])).unwrap();
        let fields: Vec<&String> = json.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["against", "baseline", "bound", "case", "ratio", "target", "unit", "value"]);
    }
}
