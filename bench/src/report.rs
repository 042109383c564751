//! Medians, the table, and `results.json`.

use std::fs;
use std::io::Write;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::target;
use crate::work::Rate;

/// One line of the results; every later benchmark adds lines of the same shape.
#[derive(Debug, Serialize)]
pub struct Measurement {
    /// What was measured, on what, with how many nodes.
    pub case: String,
    /// The buffer's rate: the median of all pairs.
    pub value: f64,
    /// What the rates count.
    pub unit: &'static str,
    /// The backing folder's rate: the median of all pairs.
    pub baseline: f64,
    /// The median of every pair's own ratio.
    pub ratio: f64,
    /// The least ratio that satisfies us.
    pub target: f64,
}

/// Medians over all pairs of (buffer, backing folder).
pub fn summarise(medium: &str, nodes: u32, pairs: &[(Vec<Rate>, Vec<Rate>)]) -> Vec<Measurement> {
    let cases = pairs.first().map_or(0, |(ours, _)| ours.len());
    (0..cases)
        .map(|index| {
            let case = pairs[0].0[index].0;
            let median_of = |value: &dyn Fn(f64, f64) -> f64| {
                median(pairs.iter().map(|(ours, theirs)| value(ours[index].1, theirs[index].1)).collect())
            };
            Measurement {
                case: format!("{}, {medium}, {nodes} node{}", case.name(), if nodes == 1 { "" } else { "s" }),
                value: median_of(&|ours, _| ours),
                unit: case.unit(),
                baseline: median_of(&|_, theirs| theirs),
                ratio: median_of(&|ours, theirs| ours / theirs),
                target: target::ratio(case, nodes),
            }
        })
        .collect()
}

/// The middle one; of an even number, the upper middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Three digits that matter, or all before the point.
fn short(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { 0 };
    format!("{value:.digits$}")
}

/// Prints the table.
pub fn print(measurements: &[Measurement]) {
    let mut out = std::io::stdout().lock();
    let mut line = |text: String| drop(writeln!(out, "{text}"));
    line(format!(
        "{:<42} {:>12} {:>12}  {:<6} {:>6} {:>7}",
        "case", "buffer", "backing", "unit", "ratio", "target"
    ));
    for m in measurements {
        let verdict = if m.ratio >= m.target { "" } else { "  below target" };
        line(format!(
            "{:<42} {:>12} {:>12}  {:<6} {:>6.2} {:>7.2}{verdict}",
            m.case,
            short(m.value),
            short(m.baseline),
            m.unit,
            m.ratio,
            m.target
        ));
    }
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
    use crate::work::Case;

    #[test]
    fn the_ratio_is_the_median_of_the_pairs_and_not_of_the_sides() {
        let pair = |ours, theirs| (vec![(Case::Stat, ours)], vec![(Case::Stat, theirs)]);
        let lines = summarise("disk", 4, &[pair(1.0, 2.0), pair(10.0, 10.0), pair(100.0, 25.0)]);
        assert_eq!(lines[0].case, "stat, disk, 4 nodes");
        assert_eq!((lines[0].value, lines[0].baseline, lines[0].ratio), (10.0, 10.0, 1.0));
    }

    #[test]
    fn the_results_are_an_array_with_the_agreed_fields() {
        let lines = summarise("disk", 1, &[(vec![(Case::Stat, 2.0)], vec![(Case::Stat, 4.0)])]);
        let json = serde_json::to_value(&lines).unwrap();
        let fields: Vec<&String> = json[0].as_object().unwrap().keys().collect();
        assert_eq!(fields, ["baseline", "case", "ratio", "target", "unit", "value"]);
    }
}
