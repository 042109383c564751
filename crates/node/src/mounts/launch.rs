//! Starting one mount process and hearing that its mount is ready.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::process::ProcessId;

/// How long a mount process may take to be ready. Generous: it says hello to every storage node first.
pub const READY_WITHIN: Duration = Duration::from_secs(30);

/// How much of a log's end is read for its last line, bytes.
const LOG_TAIL: u64 = 4096;

/// A mount process that was started and has not said yet that it is ready.
pub struct Launched {
    /// The process.
    pub id: ProcessId,
    output: ChildStdout,
    exit: JoinHandle<io::Result<ExitStatus>>,
    log: PathBuf,
}

/// Starts `program --spec SPEC` in a process group of its own, its standard error appended to `log`.
///
/// # Errors
/// The program or the log is not there.
pub fn launch(program: &Path, spec: &Path, log: &Path) -> io::Result<Launched> {
    let errors = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let mut child = Command::new(program)
        .arg("--spec")
        .arg(spec)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .current_dir("/")
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("start {}: {e}", program.display())))?;
    let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let id = ProcessId::of_child(pid)?;
    // Its own task, so that the process is reaped whenever it ends.
    let exit = tokio::spawn(async move { child.wait().await });
    Ok(Launched { id, output, exit, log: log.into() })
}

impl Launched {
    /// Completes when the process has printed `mounted`.
    ///
    /// # Errors
    /// What the process said last, when it ended instead, or that it took too long.
    pub async fn ready(self) -> Result<(), String> {
        let mut first = String::new();
        let mut output = BufReader::new(self.output);
        match tokio::time::timeout(READY_WITHIN, output.read_line(&mut first)).await {
            Err(_) => return Err(format!("its process was not ready within {} s", READY_WITHIN.as_secs())),
            Ok(_) if first.trim_end() == "mounted" => return Ok(()),
            Ok(_) => {}
        }
        // It closed its output or said something else: it is ending.
        let exit = match tokio::time::timeout(Duration::from_secs(2), self.exit).await {
            Ok(Ok(Ok(status))) => status.to_string(),
            _ => "unclear state".into(),
        };
        Err(last_line(&self.log).unwrap_or_else(|| format!("its process ended without a word ({exit})")))
    }
}

/// The last line of a log that is not empty.
pub fn last_line(log: &Path) -> Option<String> {
    let mut file = std::fs::File::open(log).ok()?;
    let len = file.metadata().ok()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut tail).ok()?;
    let text = String::from_utf8_lossy(&tail);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}
