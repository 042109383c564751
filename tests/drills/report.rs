//! The table of what was survived.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Asked;
use crate::runner::Result;
use crate::scenario::{Disks, Scenario};

/// Writes it to `file`, which it replaces.
pub fn write(file: &Path, results: &[(&Scenario, Result)], asked: &Asked, took: Duration) {
    let text = table(results, asked, took);
    fs::write(file, text).unwrap_or_else(|error| panic!("write {}: {error}", file.display()));
}

fn table(results: &[(&Scenario, Result)], asked: &Asked, took: Duration) -> String {
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, result) in results {
        result.faults.iter().for_each(|(kind, count)| *faults.entry(kind).or_default() += count);
    }
    let operations: u64 = results.iter().map(|(_, result)| result.counts.operations).sum();
    let failed: usize = results.iter().filter(|(_, result)| !result.failures.is_empty()).count();
    let mut text = String::from(HEAD);
    let _ = writeln!(text, "| | |\n|---|---|");
    let _ = writeln!(
        text,
        "| command | `make drills ROUNDS={} SEED={} ARGS=\"{}\"` |",
        asked.rounds.unwrap_or(0),
        asked.seed,
        asked.words.join(" ")
    );
    let _ = writeln!(text, "| build | {} |", said("git", &["describe", "--always", "--dirty"]));
    let _ = writeln!(text, "| kernel | {}, {} processors |", said("uname", &["-r"]), said("nproc", &[]));
    let _ = writeln!(text, "| took | {} minutes |", took.as_secs().div_ceil(60));
    let left = results.iter().filter(|(_, result)| result.rounds == 0 && result.failures.is_empty()).count();
    let _ = writeln!(
        text,
        "| drills | {} survived, {failed} not, {left} not run |",
        results.len() - failed - left
    );
    let _ = writeln!(text, "| operations checked | {operations} |");
    for (kind, count) in &faults {
        let _ = writeln!(text, "| {kind} | {count} |");
    }
    text += "\n| drill | on | rounds | faults | operations | fsyncs | refused | lost, not confirmed | |\n";
    text += "|---|---|---|---|---|---|---|---|---|\n";
    for (scenario, result) in results {
        text += &row(scenario, result);
    }
    text + &failures(results)
}

const HEAD: &str = "# What was survived

`make drills` writes this page: each round one fault under a load whose every byte is checked. \"Refused\" are
calls that failed while a fault was there that may fail calls; \"lost, not confirmed\" are changes that no fsync had
confirmed and that a power loss took. A drill is survived when no other call failed, all that was confirmed is there,
and where nothing may be lost, all that was answered. [SEMANTICS.md](SEMANTICS.md) says what is promised.

";

fn row(scenario: &Scenario, result: &Result) -> String {
    let plan = &scenario.plan;
    let disks = match scenario.disks {
        Disks::Shared => "",
        Disks::Xfs => ", XFS each",
        Disks::Ext4 => ", ext4 each",
    };
    let on = format!("{} storage nodes ({}{disks}), {} mounts", plan.storage_nodes, plan.volume, plan.mounts);
    let faults: Vec<String> = result.faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let counts = &result.counts;
    let word = match (result.failures.is_empty(), result.rounds) {
        (false, _) => "**failed**",
        (true, 0) => "not run",
        (true, _) => "survived",
    };
    format!(
        "| {} | {on} | {} | {} | {} | {} | {} | {} | {word} |\n",
        scenario.name.replace('_', " "),
        result.rounds,
        faults.join(", "),
        counts.operations,
        counts.syncs,
        counts.refusals,
        counts.losses,
    )
}

/// As many of each drill: the others are in the run's output.
const FAILURES_SHOWN: usize = 3;

fn failures(results: &[(&Scenario, Result)]) -> String {
    let mut text = String::new();
    for (scenario, result) in results {
        for (seed, rounds, why) in result.failures.iter().take(FAILURES_SHOWN) {
            // Folders of a run say nothing later.
            let why = why.replace(&std::env::temp_dir().display().to_string(), "");
            let _ = writeln!(text, "- {} (seed {seed}, {rounds} rounds): {why}", scenario.name);
        }
    }
    if text.is_empty() { text } else { format!("\nNot survived:\n\n{text}") }
}

fn said(program: &str, arguments: &[&str]) -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
