//! Control as the stage commands see it: this user's own, or a cluster's.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::Context;
use super::super::cluster::Control;
use crate::failure::Failure;
use crate::output::Output;

/// Between two looks whether our own service still runs, while a file system is asked.
const LOOK: Duration = Duration::from_millis(500);

/// One of them.
pub enum Client {
    /// Of a state folder.
    Own(Box<Context>),
    /// Of the cluster that this machine belongs to.
    Cluster(Control),
}

impl Client {
    /// The control that commands here are for.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn open(cluster: bool, output: &Output, dir: Option<PathBuf>) -> Result<Client, Failure> {
        if cluster {
            return Ok(Client::Cluster(Control::of_cluster(output)));
        }
        let context = Context::open(output, dir)?;
        context.service.ensure_up().await?;
        Ok(Client::Own(Box::new(context)))
    }

    /// `POST /v1/stages…`.
    ///
    /// # Errors
    /// Control refused, or is not to be reached.
    pub async fn post<B: Serialize, R: DeserializeOwned>(&self, what: &str, body: &B) -> Result<R, Failure> {
        let path = format!("/v1/stages{what}");
        match self {
            Client::Own(context) => context.service.post(&path, body).await,
            Client::Cluster(control) => control.post(&path, body),
        }
    }

    /// `GET` of a session's resource.
    ///
    /// # Errors
    /// As [`Client::post`].
    pub async fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, Failure> {
        match self {
            Client::Own(context) => context.service.get(path).await,
            Client::Cluster(control) => control.get(path),
        }
    }

    /// Asks the file system, which may be a mount that waits for a storage node. A node that died is started again by
    /// our own service alone, and that may have died with it, or a moment after it answered us: so it is kept up
    /// meanwhile.
    pub async fn asking<R: Send + 'static>(&self, question: impl FnOnce() -> R + Send + 'static) -> R {
        let mut answer = tokio::task::spawn_blocking(question);
        loop {
            if let Ok(answer) = tokio::time::timeout(LOOK, &mut answer).await {
                return answer.expect("a question to the file system does not panic");
            }
            if let Client::Own(context) = self {
                // A failed start is tried again.
                let _ = context.service.ensure_up().await;
            }
        }
    }

    /// Whether the user wants to leave.
    pub fn interrupted(&self) -> bool {
        match self {
            Client::Own(context) => context.interrupts.requested(),
            // The signal's own effect ends the command.
            Client::Cluster(_) => false,
        }
    }

    /// Leaves no service behind that nothing needs.
    pub async fn close(&self) {
        if let Client::Own(context) = self {
            context.service.stop_if_started().await;
        }
    }
}
