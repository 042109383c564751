//! Control as the stage commands see it: this user's own, or a cluster's.

use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use wlm::control::Control;

use super::super::{Context, cluster};
use crate::failure::Failure;
use crate::output::Output;

/// One of them.
pub enum Door {
    /// Of a state folder.
    Own(Box<Context>),
    /// Of the cluster that this machine belongs to.
    Cluster(Control),
}

impl Door {
    /// The control that commands here are for.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn open(cluster: bool, output: &Output, dir: Option<PathBuf>) -> Result<Door, Failure> {
        if cluster {
            return Ok(Door::Cluster(Control::patient(cluster::RESTART)));
        }
        let context = Context::open(output, dir)?;
        context.service.ensure_up().await?;
        Ok(Door::Own(Box::new(context)))
    }

    /// `POST /v1/stages…`.
    ///
    /// # Errors
    /// Control refused, or is not to be reached.
    pub async fn post<B: Serialize, R: DeserializeOwned>(&self, what: &str, body: &B) -> Result<R, Failure> {
        let path = format!("/v1/stages{what}");
        match self {
            Door::Own(context) => context.service.post(&path, body).await,
            Door::Cluster(control) => control.post(&path, body).map_err(cluster::failure),
        }
    }

    /// `GET` of a session's resource.
    ///
    /// # Errors
    /// As [`Door::post`].
    pub async fn get<R: DeserializeOwned>(&self, path: &str) -> Result<R, Failure> {
        match self {
            Door::Own(context) => context.service.get(path).await,
            Door::Cluster(control) => control.get(path).map_err(cluster::failure),
        }
    }

    /// Whether the user wants to leave.
    pub fn interrupted(&self) -> bool {
        match self {
            Door::Own(context) => context.interrupts.requested(),
            // The signal's own effect ends the command.
            Door::Cluster(_) => false,
        }
    }

    /// Leaves no service behind that nothing needs.
    pub async fn close(&self) {
        if let Door::Own(context) = self {
            context.service.stop_if_started().await;
        }
    }
}
