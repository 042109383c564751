//! `dwcli`: make, list, change and remove what control keeps, with DataWarp's words. One file per verb.
//!
//! Control makes a session, its instance and its configurations in one step, so only a persistent buffer's instance can
//! be made by itself here; jobs' sessions are made by a workload manager or by `forebay run`.

pub mod arguments;
mod create;
mod find;
mod remove;
mod stage;
mod update;

use std::time::Duration;

use arguments::{Command, Verb};
use model::Token;
use wire::control::Objects;

use crate::stat::{self, Units};
use api::CallError;
use api::control::Control;

/// How long to wait for a control service that is just starting again.
const RESTART: Duration = Duration::from_secs(20);

/// Why a command failed. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Control did not do it.
    #[error(transparent)]
    Call(#[from] CallError),
    /// There is no such object.
    #[error("there is no {kind} {id}; `dwcli ls {kind}s` lists them")]
    Missing {
        /// The kind of object.
        kind: &'static str,
        /// The number that was given.
        id: u64,
    },
    /// The arguments contradict each other or are not understood.
    #[error("{0}")]
    Usage(String),
    /// Teardown kept the data.
    #[error(
        "session {token} is kept: {why}; `forebay stage retry {token}` tries again, --hurry destroys the data"
    )]
    Kept {
        /// The session that has the data now.
        token: Token,
        /// Which data.
        why: String,
    },
}

/// Runs a command; returns what to print.
///
/// # Errors
/// See [`AdminError`].
pub fn run(command: &Command) -> Result<String, AdminError> {
    let control = Control::patient(RESTART);
    match &command.verb {
        Verb::Create(what) => create::run(&control, what),
        Verb::Ls { what, bytes } => {
            let objects: Objects = control.get("/v1/objects")?;
            Ok(stat::show(&objects, *what, if *bytes { Units::Bytes } else { Units::Human }))
        }
        Verb::Rm(what) => remove::run(&control, what),
        Verb::Update(what) => update::run(&control, what),
        Verb::Stage(what) => stage::run(&control, what),
    }
}
