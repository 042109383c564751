//! Opening, writing and closing a small file, over and over, in two processes with a file each.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{block, rate};

/// How many processes do it at once.
const PROCESSES: usize = 2;

/// Bytes of each file.
const BYTES: usize = 100;

/// The line that a process prints when it could begin.
const READY: &str = "ready";

/// Rounds per second of both processes together, of `count` rounds each, in `folder`, which is left as it was.
pub fn run(folder: &Path, count: usize) -> Result<f64> {
    let paths: Vec<_> = (0..PROCESSES).map(|number| folder.join(format!("round-{number}"))).collect();
    let mut processes: Vec<Process> =
        paths.iter().map(|path| Process::start(path, count)).collect::<Result<_>>()?;
    processes.iter_mut().for_each(Process::begin);
    let rates: Vec<f64> = processes.into_iter().map(Process::rate).collect::<Result<_>>()?;
    paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(rates.iter().sum())
}

/// What each of the processes does: waits for its standard input to end, works, and prints its rate.
pub fn work(path: &Path, count: usize) -> Result<()> {
    let bytes = block(BYTES);
    let round = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        file.write_all(&bytes)
    };
    round().with_context(|| format!("write {}", path.display()))?;
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let rate = rate("open, write, close", count, || (0..count).try_for_each(|_| round()))?;
    Ok(writeln!(out, "{rate}")?)
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(path: &Path, count: usize) -> Result<Process> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("open-write-close")
            .args([path.as_os_str(), count.to_string().as_ref()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a process of the benchmark")?;
        let mut output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        output.read_line(&mut line)?;
        ensure!(line.trim_end() == READY, "a process of the benchmark did not begin");
        Ok(Process { child, output })
    }

    fn begin(&mut self) {
        drop(self.child.stdin.take());
    }

    fn rate(mut self) -> Result<f64> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.child.wait()?;
        line.trim_end().parse().context("a process of the benchmark did not end well")
    }
}
