//! The programs that work in the buffer, as the test drives them.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A `crash-writer`.
pub struct Writer {
    process: Child,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    /// Starts one that works in `mount`; returns when it has begun.
    #[track_caller]
    pub fn start(mode: &str, mount: &Path, number: usize, seed: u64) -> Writer {
        let mut process = Command::new(env!("CARGO_BIN_EXE_crash-writer"))
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

    #[track_caller]
    fn ask(&mut self, order: &str) -> Vec<u64> {
        writeln!(self.process.stdin.as_mut().expect("it is piped"), "{order}").expect("the writer lives");
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
