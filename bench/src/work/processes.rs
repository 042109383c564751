//! Work in several processes that begin at once, as the programs of a job do. Each is this program again.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// The line that a process prints when it could begin.
const READY: &str = "ready";

/// What a process says of its work.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Done {
    /// How long it took.
    pub seconds: f64,
    /// CPU seconds, in the kernel's behalf too.
    pub cpu: f64,
}

/// Starts this program with each of these arguments, and lets them begin when all could.
pub fn run(arguments: &[[String; 2]]) -> Result<Vec<Done>> {
    let mut processes: Vec<Process> =
        arguments.iter().map(|own| Process::start(own)).collect::<Result<_>>()?;
    processes.iter_mut().for_each(Process::begin);
    processes.into_iter().map(Process::done).collect()
}

/// What each of the processes does: waits for its standard input to end, works, and says what it took.
pub fn serve(work: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{READY}")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let (start, cpu) = (Instant::now(), cpu()?);
    work()?;
    let done = Done { seconds: start.elapsed().as_secs_f64(), cpu: (self::cpu()? - cpu).as_secs_f64() };
    Ok(writeln!(out, "{}", serde_json::to_string(&done)?)?)
}

fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::ProcessCPUTime).try_into()?)
}

struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(arguments: &[String]) -> Result<Process> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(arguments)
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

    fn done(mut self) -> Result<Done> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        self.child.wait()?;
        serde_json::from_str(&line).context("a process of the benchmark did not end well")
    }
}
