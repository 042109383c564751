//! The programs that work in the buffer, as the test drives them.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::cluster::program_folder;

/// A `crash-writer`.
pub struct Writer {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts one that works in `mount`; returns when it has begun.
    #[track_caller]
    pub fn start(mode: &str, mount: &Path, number: usize, seed: u64) -> Writer {
        let mut process = Command::new(program_folder().join("crash-writer"))
            .arg(mode)
            .arg(mount)
            .args([number.to_string(), seed.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let answers = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut writer = Writer { process, answers };
        writer.hear("begin");
        writer
    }

    /// It works; if not, why it ended.
    #[track_caller]
    pub fn assert_works(&mut self) {
        if self.process.try_wait().expect("it is our child").is_some() {
            self.hear("work");
        }
    }

    /// Ends its work; the numbers that it answers.
    #[track_caller]
    pub fn stop(&mut self) -> Vec<u64> {
        self.ask("stop")
    }

    /// Lets it compare the buffer, mounted at `mount`, with what it knows; the numbers that it answers.
    #[track_caller]
    pub fn verify(&mut self, mount: &Path) -> Vec<u64> {
        self.ask(&format!("verify {}", mount.display()))
    }

    /// Gives it an order; the numbers that it answers.
    #[track_caller]
    pub fn ask(&mut self, order: &str) -> Vec<u64> {
        // If it is dead, what it said last tells why.
        let _sent = writeln!(self.process.stdin.as_mut().expect("it is piped"), "{order}");
        self.hear(order)
    }

    #[track_caller]
    fn hear(&mut self, order: &str) -> Vec<u64> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers in text");
        let numbers = line.strip_prefix("ok").unwrap_or_else(|| panic!("{order}: the writer {line}"));
        numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Killed, it cannot wait for a mount that the failed test has left without a server.
        let _gone = self.process.kill();
        let _status = self.process.wait();
    }
}

/// What the writers of mode `load` did together is there: each record, and each count; `counts` is what each answered.
///
/// # Panics
/// Something is missing, torn, or there twice.
#[track_caller]
pub fn assert_shared(mount: &Path, counts: &[Vec<u64>]) {
    assert_appended(&mount.join("appended"), counts);
    for (which, name) in [(1, "counted-flock"), (2, "counted-fcntl")] {
        let bytes = fs::read(mount.join(name)).expect("the counter is there");
        let found = u64::from_le_bytes(bytes.try_into().expect("a counter has 8 bytes"));
        assert_eq!(found, counts.iter().map(|counts| counts[which]).sum::<u64>(), "{name}");
    }
}

/// Every record is there once and whole.
#[track_caller]
fn assert_appended(path: &Path, counts: &[Vec<u64>]) {
    let text = fs::read_to_string(path).expect("records are text");
    let mut next: HashMap<u64, u64> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(writer), Some(count)) = (number(), number()) else { panic!("a torn record: {line:?}") };
        let expected = next.entry(writer).or_default();
        assert_eq!(count, *expected, "the next record of writer {writer}");
        assert_eq!(words.count() as u64, 3 + count % 5, "a torn record: {line:?}");
        *expected += 1;
    }
    let acknowledged: HashMap<u64, u64> = (0..).zip(counts.iter().map(|counts| counts[0])).collect();
    assert_eq!(next, acknowledged, "records that are there, and that were acknowledged");
}
