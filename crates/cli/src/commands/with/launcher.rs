//! The processes that attend the nodes, one on each host, and what starts them there. They end when the standard input
//! that they are given here ends: also when this process is killed.

use std::process::Stdio;
use std::time::Duration;

use model::NodeName;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use wire::control::{Attended, RegisterNode};

use super::hosts::{By, Hosts};
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// How long hosts may take to begin.
const READY: Duration = Duration::from_secs(60);

/// How long they may take to leave nothing.
const END: Duration = Duration::from_secs(15);

/// All of them.
pub struct Launcher {
    inputs: Vec<ChildStdin>,
    news: mpsc::UnboundedReceiver<News>,
    /// How many processes of ours have not ended.
    living: usize,
}

enum News {
    Said(Attended),
    /// What was started for these hosts has ended.
    Ended(String),
}

impl Launcher {
    /// Starts them, and tells each `line`.
    ///
    /// # Errors
    /// What starts them is not there.
    pub async fn start(hosts: &Hosts, line: &str, output: &Output) -> Result<Launcher, Failure> {
        let (tell, news) = mpsc::unbounded_channel();
        let mut launcher = Launcher { inputs: Vec::new(), news, living: 0 };
        for (whose, mut command) in commands(hosts)? {
            let failed = |what: &str, error: std::io::Error| {
                Failure::unavailable(
                    format!("{what} for {whose}: {error}"),
                    "check that it is installed here",
                )
            };
            let program = command.as_std().get_program().to_string_lossy().into_owned();
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0).current_dir("/");
            let mut child = command.spawn().map_err(|error| failed(&format!("start {program}"), error))?;
            let mut input = child.stdin.take().expect("it is piped");
            // Of one that has ended already its end says more.
            let _ = input.write_all(format!("{line}\n").as_bytes()).await;
            launcher.inputs.push(input);
            launcher.living += 1;
            tokio::spawn(listen(child, format!("{program} for {whose}"), tell.clone(), output.clone()));
        }
        Ok(launcher)
    }

    /// Waits until every node of `hosts` serves.
    ///
    /// # Errors
    /// One does not; it is named.
    pub async fn ready(&mut self, hosts: &Hosts) -> Result<Vec<RegisterNode>, Failure> {
        let mut nodes: Vec<RegisterNode> = Vec::new();
        let deadline = tokio::time::Instant::now() + READY;
        while nodes.len() < hosts.names.len() {
            match tokio::time::timeout_at(deadline, self.news.recv()).await {
                Ok(Some(News::Said(Attended::Ready(node)))) => nodes.push(node),
                Ok(Some(news)) => return Err(self.failure(news)),
                Ok(None) | Err(_) => {
                    let is_silent = |name: &&NodeName| nodes.iter().all(|node| node.name != **name);
                    let silent: Vec<&str> =
                        hosts.names.iter().filter(is_silent).map(NodeName::as_str).collect();
                    let message =
                        format!("nothing was heard of {} for {} s", silent.join(" "), READY.as_secs());
                    return Err(Failure::unavailable(message, "look whether programs can be started there"));
                }
            }
        }
        Ok(nodes)
    }

    /// Completes when one of them does not serve any more.
    pub async fn lost(&mut self) -> Failure {
        loop {
            match self.news.recv().await {
                // It was started again, where it was.
                Some(News::Said(Attended::Ready(_))) => {}
                Some(news) => return self.failure(news),
                None => std::future::pending().await,
            }
        }
    }

    /// Ends all, and waits until nothing of them is left.
    pub async fn end(mut self, output: &Output) {
        self.inputs.clear();
        let deadline = tokio::time::Instant::now() + END;
        while self.living > 0 {
            match tokio::time::timeout_at(deadline, self.news.recv()).await {
                Ok(Some(News::Ended(_))) => self.living -= 1,
                Ok(Some(News::Said(_))) => {}
                Ok(None) | Err(_) => {
                    output.note("forebay: not every host has said that nothing is left there");
                    return;
                }
            }
        }
    }

    fn failure(&mut self, news: News) -> Failure {
        match news {
            News::Said(Attended::Failed { node, why }) => Failure::unavailable(
                format!("node {node}: {why}"),
                "correct that, or take another host, then repeat the command",
            ),
            News::Said(Attended::Ready(node)) => {
                Failure::unavailable(format!("node {} came twice", node.name), "name each host once")
            }
            News::Ended(what) => {
                self.living -= 1;
                Failure::unavailable(what, "look above for what was said there")
            }
        }
    }
}

/// What is started here, and for whom.
fn commands(hosts: &Hosts) -> Result<Vec<(String, Command)>, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::unavailable(format!("find this program: {error}"), "repair the installation")
    })?;
    if hosts.by == By::Srun {
        let count = hosts.names.len().to_string();
        let names: Vec<&str> = hosts.names.iter().map(NodeName::as_str).collect();
        let mut command = Command::new("srun");
        // Beside the job's own steps, and with all that it has: what is stored goes through all processors.
        command.args([
            "--overlap",
            "--nodes",
            &count,
            "--ntasks",
            &count,
            "--ntasks-per-node=1",
            "--nodelist",
        ]);
        command.arg(names.join(",")).args(["--mpi=none", "--export=ALL", "--chdir=/"]);
        command.args(["--kill-on-bad-exit=1", "--input=all", "--job-name=forebay", "--quiet"]);
        command.arg(&own).arg("attend");
        return Ok(vec![(names.join(" "), command)]);
    }
    let of_host = |name: &NodeName| {
        if *name == hosts.own {
            let mut command = Command::new(&own);
            command.arg("attend").arg(name.as_str());
            return (name.to_string(), command);
        }
        let mut command = Command::new("ssh");
        command.args(["-o", "BatchMode=yes", "-T", name.as_str(), "--"]);
        command.arg(format!("{} attend {name}", render::word(&own)));
        (name.to_string(), command)
    };
    Ok(hosts.names.iter().map(of_host).collect())
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
