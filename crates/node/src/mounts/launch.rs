//! Starting one mount process and hearing that its mount is ready.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use daemon::logging::last_words;
use fuse::device::Device;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::process::ProcessId;

/// How long a mount process may take to be ready. Generous: it says hello to every storage node first.
pub(super) const READY_WITHIN: Duration = Duration::from_secs(30);

/// A mount process that was started and has not said yet that it is ready.
pub(super) struct Launched {
    /// The process.
    pub id: ProcessId,
    output: ChildStdout,
    exit: JoinHandle<io::Result<ExitStatus>>,
    log: PathBuf,
}

/// What a mount process begins with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resume<'a> {
    /// A new mount.
    Anew,
    /// The device of a mount whose process died.
    With(&'a Device),
}

/// Starts `program --spec SPEC` in a process group of its own, its standard error appended to `log`. To go on with a
/// mount it gets `--resume`, and the device as its standard input.
///
/// # Errors
/// The program or the log is not there.
pub(super) fn launch(program: &Path, spec: &Path, log: &Path, resume: Resume<'_>) -> io::Result<Launched> {
    let errors = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    let (input, resume) = match resume {
        Resume::Anew => (Stdio::null(), None),
        Resume::With(device) => (Stdio::from(device.as_fd().try_clone_to_owned()?), Some("--resume")),
    };
    let mut child = Command::new(program)
        .arg("--spec")
        .arg(spec)
        .args(resume)
        .process_group(0)
        .stdin(input)
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

/// Why a mount process is not ready.
#[derive(Debug)]
pub(super) struct NotReady {
    /// In words.
    pub reason: String,
    /// It was ended by a signal: another may fare better.
    pub killed: bool,
}

impl Launched {
    /// Completes when the process has printed `mounted`.
    ///
    /// # Errors
    /// What the process said last, when it ended instead, or that it took too long.
    pub(super) async fn ready(self) -> Result<(), NotReady> {
        let mut first = String::new();
        let mut output = BufReader::new(self.output);
        match tokio::time::timeout(READY_WITHIN, output.read_line(&mut first)).await {
            Err(_) => {
                let reason = format!("its process was not ready within {} s", READY_WITHIN.as_secs());
                return Err(NotReady { reason, killed: false });
            }
            Ok(_) if first.trim_end() == "mounted" => return Ok(()),
            Ok(_) => {}
        }
        // It closed its output or said something else: it is ending.
        let exit = match tokio::time::timeout(Duration::from_secs(2), self.exit).await {
            Ok(Ok(Ok(status))) => Some(status),
            _ => None,
        };
        if exit.is_some_and(|status| status.signal().is_some()) {
            return Err(NotReady { reason: "its process was killed".into(), killed: true });
        }
        let silent = || {
            let exit = exit.map_or_else(|| "unclear state".into(), |status| status.to_string());
            format!("its process ended without a word ({exit})")
        };
        Err(NotReady { reason: last_words(&self.log).unwrap_or_else(silent), killed: false })
    }
}
