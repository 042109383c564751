//! Runs tests that share one cluster, says what it does, and sums up in the words of Rust's own test runner.

#![expect(clippy::print_stdout, reason = "it is what a test runner is for")]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

/// What tests share.
pub trait Site: Sync {
    /// Nothing is allocated or mounted that the tests had not found; waits for what is still on its way.
    fn assert_nothing_left(&self);

    /// The last lines of the services' logs.
    fn print_logs(&self);

    /// Removes it, and looks whether that is true.
    fn down(&self);
}

/// A name that is a sentence, and what it does.
pub type Test<S> = (&'static str, fn(&S));

/// The cluster and what became of the tests.
pub struct Runner<S> {
    site: S,
    words: Vec<String>,
    started: Instant,
    outcome: Mutex<Outcome>,
}

#[derive(Default)]
struct Outcome {
    passed: Vec<&'static str>,
    /// With the reasons.
    failed: Vec<(&'static str, String)>,
}

impl<S: Site> Runner<S> {
    /// Starts the cluster with `up`.
    pub fn start(up: impl FnOnce() -> S) -> Runner<S> {
        let started = Instant::now();
        let words = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
        let site = up();
        println!("the cluster is up after {:.1} s", started.elapsed().as_secs_f64());
        Runner { site, words, started, outcome: Mutex::default() }
    }

    /// Runs tests, `width` at a time; then nothing may be left.
    pub fn together(&self, tests: &[Test<S>], width: usize) {
        let queue =
            Mutex::new(tests.iter().filter(|test| self.is_wanted(test)).collect::<Vec<_>>().into_iter());
        let next = || queue.lock().expect("no test panics with the queue").next();
        std::thread::scope(|scope| {
            for _ in 0..width {
                scope.spawn(|| {
                    while let Some(test) = next() {
                        self.run(test.0, || test.1(&self.site));
                    }
                });
            }
        });
        if tests.iter().any(|test| self.is_wanted(test)) {
            self.run("afterwards_nothing_is_allocated_or_mounted", || self.site.assert_nothing_left());
        }
    }

    /// Runs tests one after the other; after each nothing may be left.
    pub fn one_by_one(&self, tests: &[Test<S>]) {
        for (name, test) in tests.iter().filter(|test| self.is_wanted(test)) {
            self.run(name, || {
                test(&self.site);
                self.site.assert_nothing_left();
            });
        }
    }

    /// Removes the cluster; the program's exit status.
    pub fn finish(self) -> i32 {
        let outcome = self.outcome.into_inner().expect("no test panics with the outcome");
        self.site.down();
        if !outcome.failed.is_empty() {
            // Once more, and last: whoever reads only the end of a log sees why.
            println!("\nfailures:");
            outcome.failed.iter().for_each(|(name, why)| println!("    {name}: {why}"));
        }
        let word = if outcome.failed.is_empty() { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {word}. {} passed; {} failed; finished in {:.2}s",
            outcome.passed.len(),
            outcome.failed.len(),
            self.started.elapsed().as_secs_f64()
        );
        i32::from(!outcome.failed.is_empty())
    }

    fn is_wanted(&self, test: &Test<S>) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| test.0.contains(word.as_str()))
    }

    fn run(&self, name: &'static str, test: impl FnOnce()) {
        let started = Instant::now();
        let result = std::thread::scope(|scope| {
            let (ended, end) = mpsc::channel::<()>();
            scope.spawn(move || say_that_it_is_slow(name, &end));
            let result = catch_unwind(AssertUnwindSafe(test));
            drop(ended);
            result
        });
        let word = if result.is_ok() { "ok" } else { "FAILED" };
        println!("test {name} ... {word} ({:.1} s)", started.elapsed().as_secs_f64());
        let mut outcome = self.outcome.lock().expect("no test panics with the outcome");
        match result {
            Ok(()) => outcome.passed.push(name),
            Err(cause) => {
                self.site.print_logs();
                outcome.failed.push((name, shown(&*cause)));
            }
        }
    }
}

/// What a panic said; the beginning, if it is long.
fn shown(cause: &(dyn Any + Send)) -> String {
    let text = cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked with no text").chars().take(2000).collect()
}

/// Who ends a run that hangs learns from this where it hung.
fn say_that_it_is_slow(name: &str, end: &mpsc::Receiver<()>) {
    if end.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
        println!("test {name} has been running for over 60 seconds");
    }
}
