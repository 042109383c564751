//! One `srun` in the allocation, with one `forebay attend` on each of some hosts.

use std::process::Stdio;

use model::NodeName;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use wire::control::Attended;

use crate::failure::Failure;
use crate::output::Output;

/// What runs.
pub struct Step {
    input: Option<ChildStdin>,
    news: mpsc::UnboundedReceiver<News>,
}

/// What is heard of it.
pub enum News {
    /// A host.
    Said(Attended),
    /// Nothing follows: how it ended.
    Ended(String),
}

impl Step {
    /// Starts `forebay attend WORDS...` on the hosts, and tells each `line`.
    ///
    /// # Errors
    /// There is no `srun`.
    pub async fn start(
        hosts: &[NodeName],
        words: &[&str],
        line: &str,
        output: &Output,
    ) -> Result<Step, Failure> {
        let own = std::env::current_exe().map_err(|error| {
            Failure::unavailable(format!("find this program: {error}"), "repair the installation")
        })?;
        let names = hosts.iter().map(NodeName::as_str).collect::<Vec<_>>().join(",");
        let mut command = srun(&names, hosts.len());
        command.arg(own).arg("attend").args(words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).current_dir("/");
        let mut child = command.spawn().map_err(|error| {
            let advice = "check that Slurm's commands are in PATH";
            Failure::unavailable(format!("start srun for {names}: {error}"), advice)
        })?;
        let mut input = child.stdin.take().expect("it is piped");
        // Of one that has ended already its end says more.
        let _ = input.write_all(format!("{line}\n").as_bytes()).await;
        let (tell, news) = mpsc::unbounded_channel();
        let what = format!("srun, which starts the buffer's processes on nodes {names},");
        tokio::spawn(listen(child, what, tell, output.clone()));
        Ok(Step { input: Some(input), news })
    }

    /// What is heard next.
    pub async fn news(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Asks all of it to end.
    pub fn end(&mut self) {
        self.input = None;
    }
}

/// Beside the job's own steps, and with all that it has: what is stored goes through all processors.
fn srun(names: &str, count: usize) -> Command {
    let count = count.to_string();
    let mut command = Command::new("srun");
    command.args(["--overlap", "--nodelist", names, "--nodes", &count, "--ntasks", &count]);
    command.args(["--ntasks-per-node=1", "--mpi=none", "--export=ALL", "--chdir=/"]);
    command.args(["--kill-on-bad-exit=1", "--input=all", "--job-name=forebay", "--quiet"]);
    command
}

/// Gives on what a child says, to its end.
async fn listen(mut child: Child, what: String, tell: mpsc::UnboundedSender<News>, output: Output) {
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            // Nobody asks any more.
            Ok(said) => drop(tell.send(News::Said(said))),
            Err(_) => output.note(&line),
        }
    }
    let ended = match child.wait().await {
        Ok(status) => format!("{what} ended ({status})"),
        Err(error) => format!("{what} cannot be waited for: {error}"),
    };
    drop(tell.send(News::Ended(ended)));
}
