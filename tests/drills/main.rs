//! Drills: processes die, disks fail and links break under a load whose every byte is checked.
//!
//! ```text
//! drills [WORD]...                                   the short run: a few rounds of some drills
//! drills --rounds N [--seed S] [--minutes M] [--table FILE] [WORD]...
//! ```
//!
//! A long run does every drill's share of N rounds, and writes what was survived to FILE. A drill's rounds are done in
//! batches, each with nodes of its own and a seed that is printed: `--seed S` begins with that one. What is random is
//! the same again; the machine's timing is not. With WORDs only the drills with one of them in their names.
//!
//! As root only. It runs in a mount namespace of its own, where nobody else holds on to a dead disk, and in memory,
//! where a flush of a disk costs nothing.
//!
//! **Invariant:** a drill that fails says which batch, by its seed; the other batches and drills are done all the same.

#![allow(unreachable_pub, reason = "a program: nobody can reach into it")]
#![expect(clippy::print_stdout, reason = "it is what a test runner is for")]

mod faults;
mod ground;
mod load;
mod programs;
mod relay;
mod report;
mod runner;
mod scenario;
mod scenarios;

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// What the command line asks for.
pub struct Asked {
    /// `None`: the short run.
    pub rounds: Option<u64>,
    /// Where the numbers begin.
    pub seed: u64,
    /// No batch begins later.
    pub minutes: Option<u64>,
    /// Where the table is written.
    pub table: Option<PathBuf>,
    /// Parts of names.
    pub words: Vec<String>,
}

/// Set where the namespace is.
const INSIDE: &str = "FOREBAY_DRILLS_INSIDE";

fn main() {
    if !rustix::process::geteuid().is_root() {
        println!("drills need root: left out");
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        enter_namespace();
    }
    std::process::exit(runner::run(&asked()));
}

/// Becomes the same program in a mount namespace of its own, with its temporary files in memory.
fn enter_namespace() {
    let own = std::env::current_exe().expect("/proc is mounted");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]).arg(own).args(std::env::args_os().skip(1));
    if std::fs::metadata("/dev/shm").is_ok_and(|found| found.is_dir()) {
        command.env("TMPDIR", "/dev/shm");
    }
    panic!("start unshare: {}", command.env(INSIDE, "yes").exec());
}

fn asked() -> Asked {
    let mut asked = Asked {
        rounds: None,
        seed: u64::from(std::process::id()),
        minutes: None,
        table: None,
        words: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{text} is no number"));
        match word.as_str() {
            "--rounds" => asked.rounds = Some(number(value())),
            "--seed" => asked.seed = number(value()),
            "--minutes" => asked.minutes = Some(number(value())),
            "--table" => asked.table = Some(value().into()),
            _ => asked.words.push(word),
        }
    }
    asked
}
