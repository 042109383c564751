//! Runs drills in batches, says what it does, and sums up in the words of Rust's own test runner.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::Asked;
use crate::ground::Ground;
use crate::load::Counts;
use crate::report;
use crate::scenario::{Fault, Load, Scenario};
use crate::scenarios::ALL;

/// What became of a drill.
#[derive(Default)]
pub struct Result {
    /// Rounds that were done.
    pub rounds: u64,
    /// How many faults of each kind there were.
    pub faults: BTreeMap<&'static str, u64>,
    /// The last of them.
    pub last: Option<Fault>,
    /// What the load did.
    pub counts: Counts,
    /// Seeds of the batches that were not survived, with their rounds, and the first line of why.
    pub failures: Vec<(u64, u64, String)>,
    /// How long it took.
    pub took: Duration,
}

/// Does what is asked for; the program's exit status.
pub fn run(asked: &Asked) -> i32 {
    let started = Instant::now();
    let deadline = asked.minutes.map(|minutes| started + Duration::from_secs(minutes * 60));
    let is_wanted = |scenario: &&Scenario| {
        asked.words.is_empty() || asked.words.iter().any(|word| scenario.name.contains(word.as_str()))
    };
    let mut results = Vec::new();
    for scenario in ALL.iter().filter(is_wanted) {
        let rounds = rounds_of(scenario, asked);
        if rounds == 0 {
            continue;
        }
        println!("test {} ... {rounds} rounds", scenario.name);
        let result = drill(scenario, rounds, asked.seed, deadline);
        let word = if result.failures.is_empty() { "ok" } else { "FAILED" };
        println!("test {} ... {word} ({:.1} s)", scenario.name, result.took.as_secs_f64());
        results.push((scenario, result));
        if let Some(table) = &asked.table {
            report::write(table, &results, asked, started.elapsed());
        }
    }
    let failed = results.iter().filter(|(_, result)| !result.failures.is_empty()).count();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let (passed, seconds) = (results.len() - failed, started.elapsed().as_secs_f64());
    println!("\ntest result: {word}. {passed} passed; {failed} failed; finished in {seconds:.2}s");
    i32::from(failed > 0)
}

fn rounds_of(scenario: &Scenario, asked: &Asked) -> u64 {
    let Some(rounds) = asked.rounds else {
        return scenario.short;
    };
    (rounds * scenario.share / 100).max(1)
}

/// Rounds that share one set of nodes: a failure is found, and repeated, in no more than these.
fn batch_of(scenario: &Scenario) -> u64 {
    match scenario.load {
        Load::Strict => 250,
        Load::Honest => 50,
        Load::Program(_) => 40,
    }
}

fn drill(scenario: &Scenario, rounds: u64, seed: u64, deadline: Option<Instant>) -> Result {
    let started = Instant::now();
    let mut result = Result::default();
    let mut left = rounds;
    for batch_seed in seed.. {
        if left == 0 || deadline.is_some_and(|deadline| Instant::now() > deadline) {
            break;
        }
        let batch = left.min(batch_of(scenario));
        left -= batch;
        let begun = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| run_batch(scenario, batch, batch_seed, &mut result)));
        let said = match outcome {
            Ok(counts) => {
                result.counts.add(counts);
                format!("ok, {counts:?}")
            }
            Err(payload) => {
                let text = payload.downcast_ref::<String>().cloned();
                let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let text = text.unwrap_or_default();
                let line = format!("{:?}: {}", result.last, text.lines().next().unwrap_or_default());
                result.failures.push((batch_seed, batch, line.clone()));
                format!("FAILED: {line}")
            }
        };
        println!("    seed {batch_seed}, {batch} rounds, {:.1} s: {said}", begun.elapsed().as_secs_f64());
    }
    result.took = started.elapsed();
    result
}

fn run_batch(scenario: &Scenario, rounds: u64, seed: u64, result: &mut Result) -> Counts {
    let mut ground = Ground::start(scenario, seed);
    for number in 0..rounds {
        let which = ground.random.below(scenario.faults.len() as u64) as usize;
        let fault = scenario.faults[which];
        result.last = Some(fault);
        ground.round(number, fault);
        result.rounds += 1;
        *result.faults.entry(fault.kind()).or_default() += ground.struck_by(fault);
    }
    ground.finish()
}
