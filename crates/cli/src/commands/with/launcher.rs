//! The processes that attend the nodes, one on each host, and what is done where they could not clean up. They end when
//! the standard input that they are given through their `srun` ends: also when this process is killed.
//!
//! **Invariant:** a host is cleared again, by an `srun` of its own, unless its attendant said that it has tried.

use std::path::PathBuf;
use std::time::Duration;

use model::NodeName;
use tokio::time::{Instant, timeout_at};
use wire::control::{Allocation, Attended, RegisterNode};

use super::step::{News, Step};
use crate::failure::Failure;
use crate::output::Output;

/// How long hosts may take to begin.
const READY: Duration = Duration::from_secs(60);

/// How long they may take to leave nothing.
const END: Duration = Duration::from_secs(15);

/// All of them.
pub struct Launcher {
    step: Step,
    /// What every host is told.
    line: String,
    folder: PathBuf,
    /// The hosts, where something may be left, and why.
    left: Vec<(NodeName, String)>,
    has_ended: bool,
    output: Output,
}

impl Launcher {
    /// Starts them.
    ///
    /// # Errors
    /// What starts them is not there.
    pub async fn start(allocation: &Allocation, output: &Output) -> Result<Launcher, Failure> {
        let line = serde_json::to_string(allocation).expect("its keys are strings");
        let hosts: Vec<NodeName> = allocation.hosts.iter().map(|host| host.name.clone()).collect();
        let step = Step::start(&hosts, &[], &line, output).await?;
        let unheard = |name| (name, "nothing was heard from there at the end".to_owned());
        let left = hosts.into_iter().map(unheard).collect();
        let folder = allocation.folder.clone();
        Ok(Launcher { step, line, folder, left, has_ended: false, output: output.clone() })
    }

    /// Waits until every node serves.
    ///
    /// # Errors
    /// One does not; it is named.
    pub async fn ready(&mut self) -> Result<Vec<RegisterNode>, Failure> {
        let mut nodes: Vec<RegisterNode> = Vec::new();
        let deadline = Instant::now() + READY;
        while nodes.len() < self.left.len() {
            match timeout_at(deadline, self.step.news()).await {
                Ok(News::Said(Attended::Ready(node))) => {
                    // One that died meanwhile was started again.
                    nodes.retain(|other| other.name != node.name);
                    nodes.push(node);
                }
                Ok(news) => {
                    let message = self.end_of(news);
                    let advice = "correct that, or take other hosts, then repeat the command";
                    return Err(Failure::unavailable(message, advice));
                }
                Err(_) => {
                    let is_silent = |name: &&NodeName| nodes.iter().all(|node| node.name != **name);
                    let silent = names(self.left.iter().map(|(name, _)| name).filter(is_silent));
                    let message = format!("nothing was heard of {silent} for {} s", READY.as_secs());
                    return Err(Failure::unavailable(message, "look whether `srun` starts programs there"));
                }
            }
        }
        Ok(nodes)
    }

    /// Completes when one of them does not serve any more.
    pub async fn lost(&mut self) -> Failure {
        loop {
            match self.step.news().await {
                // It was started again, where it was.
                News::Said(Attended::Ready(_)) => {}
                news => {
                    let advice = "what was in the buffer and not staged out is lost; where the job goes on, \
                                  repeat the command";
                    return Failure::unavailable(self.end_of(news), advice);
                }
            }
        }
    }

    /// Ends all, and waits until nothing of them is left.
    pub async fn end(mut self) {
        self.step.end();
        self.hear_to_the_end().await;
        if self.has_ended && !self.left.is_empty() {
            let hosts: Vec<NodeName> = self.left.iter().map(|(name, _)| name.clone()).collect();
            self.output.note(&format!("forebay: taking away what is left on {}", names(&hosts)));
            match Step::start(&hosts, &["--clear"], &self.line, &self.output).await {
                Ok(step) => self.step = step,
                Err(failure) => return self.output.note(&failure.shown()),
            }
            self.has_ended = false;
            self.hear_to_the_end().await;
        }
        for (host, why) in &self.left {
            self.output.note(&format!(
                "forebay: on host {host} something is left: {why}; `fusermount3 -u -z` what is mounted below {folder}, \
                 then `rm -r {folder}*` there",
                folder = self.folder.display()
            ));
        }
    }

    async fn hear_to_the_end(&mut self) {
        let deadline = Instant::now() + END;
        while !self.has_ended {
            match timeout_at(deadline, self.step.news()).await {
                Ok(news) => drop(self.end_of(news)),
                Err(_) => return,
            }
        }
    }

    /// Notes what it means, and says it.
    fn end_of(&mut self, news: News) -> String {
        match news {
            News::Said(Attended::Failed { node, why }) => format!("node {node}: {why}"),
            News::Said(Attended::Ready(node)) => format!("node {} serves", node.name),
            News::Said(Attended::Cleared { node, left }) => {
                self.left.retain(|(name, _)| *name != node);
                if let Some(why) = left {
                    self.left.push((node.clone(), why));
                }
                format!(
                    "the processes of the buffer on node {node} were ended by a signal there, as Slurm does when a \
                     job is cancelled or out of time"
                )
            }
            News::Ended(what) => {
                self.has_ended = true;
                what
            }
        }
    }
}

fn names<'a>(hosts: impl IntoIterator<Item = &'a NodeName>) -> String {
    hosts.into_iter().map(NodeName::as_str).collect::<Vec<_>>().join(" ")
}
