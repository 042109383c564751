//! What shells offer when a word of ours is completed: `source <(COMPLETE=bash forebay)` asks for it.
//!
//! (The variables that begin with `COMPLETE` and `_CLAP` are read by `clap_complete`.)

use std::time::Duration;

use api::endpoint::Endpoint;
use clap::builder::StyledStr;
use clap_complete::CompletionCandidate;
use wire::control::{SessionStatus, Status};

use crate::{block_on, env, render};

/// Whoever presses a key waits no longer.
const ANSWER: Duration = Duration::from_secs(1);

/// The tokens of the buffers that there are; none where no control service answers, as none is started for this.
pub fn tokens() -> Vec<CompletionCandidate> {
    status().map(|status| status.sessions.iter().map(candidate).collect()).unwrap_or_default()
}

fn candidate(session: &SessionStatus) -> CompletionCandidate {
    let about = format!("{}, {}", session.script.job_name, render::phase(session.phase));
    CompletionCandidate::new(session.token.as_str()).help(Some(StyledStr::from(about)))
}

fn status() -> Option<Status> {
    if env::state_folder().is_none() && Endpoint::of_cluster().is_some() {
        return api::control::Control::within(ANSWER).get("/v1/status").ok();
    }
    let socket = disk::state::existing(env::state_folder())?.join("control.sock");
    let client = daemon::client::Client::new(socket).with_timeout(ANSWER);
    let mut found = None;
    block_on(async {
        found = client.get("/v1/status").await.ok();
        Ok(0)
    })
    .ok()?;
    found
}
