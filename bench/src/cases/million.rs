//! A namespace of a million files: the storage node's memory, and how soon it serves again after a `kill -9`.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use client::Operations;
use tests::processes::{Process, wait_until};

use super::Effort;
use crate::buffer::{Buffer, Volume, memory};
use crate::namespace;
use crate::report::{Line, Measurement};
use crate::work::creates;

const FILES: usize = 1_000_000;
const FILLERS: usize = 4;

/// What a file may cost, and how long loading may take.
const BYTES_WANTED: f64 = 512.0;
const SECONDS_WANTED: f64 = 2.0;

/// A node that does not serve after so long never will.
const LOAD_LIMIT: Duration = Duration::from_secs(60);

/// Both, with one storage node.
pub fn measure(effort: Effort) -> Result<Vec<Measurement>> {
    let Some(medium) = memory() else { return Ok(Vec::new()) };
    let buffer = Buffer::mount(medium, 1, Volume::Directory)?;
    let node = buffer.cluster().process("forebay-node", "");
    let before = resident_bytes(&node)?;
    creates::fill(&namespace::clients(&buffer, FILLERS)?, FILES)?;
    let bytes = (resident_bytes(&node)? - before) / FILES as f64;
    // Else it starts the node again before we do.
    buffer.cluster().process("forebay-control", "").kill();
    let mut lives = Lives { node, child: None };
    let loads: Vec<_> =
        (0..effort.pairs).map(|_| Ok((lives.restart(&buffer)?, SECONDS_WANTED))).collect::<Result<_>>()?;
    buffer.unmount()?;
    lives.end()?;
    let wanted = "what is wanted";
    Ok(vec![
        Line::new("storage node's memory for each of 1,000,000 files".into(), "B", wanted, 1.0)
            .of_costs(&[(bytes, BYTES_WANTED)]),
        Line::new("1,000,000 files served again after kill -9".into(), "s", wanted, 1.0).of_costs(&loads),
    ])
}

/// The storage node, in one life after the other.
struct Lives {
    node: Process,
    child: Option<Child>,
}

impl Lives {
    /// Kills the node and starts it again. Seconds until it answers.
    fn restart(&mut self, buffer: &Buffer) -> Result<f64> {
        self.node.kill();
        self.end()?;
        ensure!(wait_until(LOAD_LIMIT, || threads(&self.node) <= 1), "the storage node's threads do not end");
        let (program, arguments) = self.node.arguments.split_first().context("a program has a name")?;
        let log = buffer.folder_beside("log").join("node");
        let start = Instant::now();
        self.child = Some(
            Command::new(program)
                // The command line ends with a zero, after which the harness sees one more.
                .args(arguments.iter().filter(|argument| !argument.is_empty()))
                .current_dir("/")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(fs::File::create(&log)?)
                .process_group(0)
                .spawn()
                .context("start the storage node")?,
        );
        let mut serves = Err(anyhow!("not tried"));
        wait_until(LOAD_LIMIT, || {
            serves = namespace::connect(buffer).and_then(|client| Ok(client.usage()?));
            serves.is_ok()
        });
        serves.with_context(|| format!("the storage node does not serve; its log:\n{}", read(&log)))?;
        let seconds = start.elapsed().as_secs_f64();
        self.node = buffer.cluster().process("forebay-node", "");
        Ok(seconds)
    }

    /// Waits for the end of the process that we started.
    fn end(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.wait()?;
        }
        Ok(())
    }
}

/// How many there are. The first may be gone and others not yet, which still hold the folder's lock.
fn threads(process: &Process) -> usize {
    fs::read_dir(format!("/proc/{}/task", process.pid)).map_or(0, Iterator::count)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Bytes of memory that a process uses now.
fn resident_bytes(process: &Process) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.pid))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kibibytes * 1024.0)
}
