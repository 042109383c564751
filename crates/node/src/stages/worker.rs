//! One life of a stage's worker process.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use model::phase::StageState;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use wire::control::StageStatus;
use wire::node::StagePace;

use crate::process::{Process, ProcessId};

/// How long a worker may take to end after SIGTERM.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// What workers are started with.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    /// The program, `forebay-stage`.
    pub program: PathBuf,
    /// Where this node's data path listens, if it has one: the other nodes of a buffer help with its stages.
    pub data_address: Option<String>,
    /// Folders below which stages may reach the PFS; none: all of it.
    pub pfs_roots: Vec<PathBuf>,
}

/// A running worker.
pub(crate) struct Worker {
    /// For signals, and for the next life of the node.
    pub id: ProcessId,
    process: Process,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    orders: Option<ChildStdin>,
}

/// The way to tell a worker or mover what has changed.
pub(crate) struct Orders(Option<ChildStdin>);

/// How a worker's life ended.
#[derive(Debug, PartialEq)]
pub(crate) enum End {
    /// It reported the stage's end.
    Reported(Box<StageStatus>),
    /// A signal ended it: its journal knows how to go on.
    Killed(i32),
    /// It ended in another way without a report.
    Broken(String),
}

/// What a worker is started for.
pub(crate) enum Errand {
    /// To run the stage.
    Run,
    /// To remove what others left on the PFS.
    Clear,
}

impl Workers {
    /// Starts `program --spec FOLDER/spec.json --journal FOLDER/journal` for an errand. It starts with the rights of
    /// this process and takes on the owner's by itself, with all the owner's groups, once its journal is open.
    ///
    /// # Errors
    /// The program or the folder is not there.
    pub(crate) fn start(&self, folder: &Path, errand: Errand) -> io::Result<Worker> {
        let log = OpenOptions::new().append(true).create(true).mode(0o600).open(folder.join("log"))?;
        let mut command = Command::new(&self.program);
        command.arg("--spec").arg(folder.join("spec.json")).arg("--journal").arg(folder.join("journal"));
        match errand {
            Errand::Run => {
                command.args(self.data_address.iter().flat_map(|address| ["--data-address", address]));
                for root in &self.pfs_roots {
                    command.arg("--pfs-root").arg(root);
                }
            }
            Errand::Clear => drop(command.arg("--clear")),
        }
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).current_dir("/");
        let named = |e: io::Error| io::Error::new(e.kind(), format!("start {}: {e}", self.program.display()));
        let mut child = command.spawn().map_err(named)?;
        let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
        let orders = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let id = ProcessId::of_child(pid)?;
        let process = Process::of_child(pid)?;
        Ok(Worker { id, process, child, lines: BufReader::new(output).lines(), orders })
    }
}

impl Worker {
    /// Hands every report to `show` until the worker ends. May be dropped; then [`Worker::stop`] it.
    pub(crate) async fn run(&mut self, show: impl Fn(&StageStatus)) -> End {
        let mut last = None;
        while let Ok(Some(line)) = self.lines.next_line().await {
            match serde_json::from_str::<StageStatus>(&line) {
                Ok(status) => {
                    // The last word is shown by whoever keeps it first.
                    if status.state == StageState::Active {
                        show(&status);
                    }
                    last = Some(status);
                }
                Err(error) => tracing::warn!(line, %error, "cannot understand a line from a stage worker"),
            }
        }
        match self.child.wait().await {
            Ok(exit) => judge(exit, last),
            Err(error) => End::Broken(format!("wait for the stage worker: {error}")),
        }
    }

    /// Waits for its end, which is success or not; it is ended if that takes longer.
    pub(crate) async fn ended_within(&mut self, limit: Duration) -> bool {
        match tokio::time::timeout(limit, self.child.wait()).await {
            Ok(exit) => exit.is_ok_and(|exit| exit.success()),
            Err(_) => {
                self.kill().await;
                false
            }
        }
    }

    /// The way to tell it something; there is one.
    pub(crate) fn orders(&mut self) -> Orders {
        Orders::to(self.orders.take())
    }

    /// Asks the worker to end and to remove what it has not finished, waits a little, then ends it.
    pub(crate) async fn stop(&mut self) {
        self.process.terminate();
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            self.kill().await;
        }
    }

    /// Ends the worker at once: what it has not finished stays for the next one.
    pub(crate) async fn kill(&mut self) {
        self.process.kill();
        if tokio::time::timeout(STOP_WITHIN, self.child.wait()).await.is_err() {
            // Its successor waits for the journal's lock, which it holds until then.
            tracing::error!(worker = ?self.id, "a killed stage worker ends when its file system answers");
        }
    }
}

impl Orders {
    /// To who reads this.
    pub(crate) fn to(pipe: Option<ChildStdin>) -> Orders {
        Orders(pipe)
    }

    /// Tells its pace. One that does not listen any more ends, and its successor is told anew.
    pub(crate) async fn give(&mut self, pace: &StagePace) {
        let Some(pipe) = &mut self.0 else { return };
        let Ok(mut line) = serde_json::to_vec(pace) else { return };
        line.push(b'\n');
        if pipe.write_all(&line).await.is_err() {
            self.0 = None;
        }
    }
}

/// What an exit and the last report mean together. A report alone is not believed: `complete` needs exit status 0.
fn judge(exit: ExitStatus, last: Option<StageStatus>) -> End {
    if let Some(signal) = exit.signal() {
        return End::Killed(signal);
    }
    match last {
        Some(status) if status.state == StageState::Failed => End::Reported(Box::new(status)),
        Some(status) if status.state == StageState::Complete && exit.success() => {
            End::Reported(Box::new(status))
        }
        _ => End::Broken(format!("the stage worker ended without a report ({exit})")),
    }
}
