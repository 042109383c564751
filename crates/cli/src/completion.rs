//! What shells offer when a word of ours is completed: `source <(COMPLETE=bash forebay)` asks for it.
//!
//! (The variables that begin with `COMPLETE` and `_CLAP` are read by `clap_complete`.)

use std::path::Path;
use std::time::Duration;

use api::endpoint::Endpoint;
use clap::builder::StyledStr;
use clap_complete::CompletionCandidate;
use wire::control::{SessionStatus, Status};

use crate::output::Output;
use crate::service::Service;
use crate::{block_on, env, render};

/// Whoever presses a key waits no longer.
const ANSWER: Duration = Duration::from_secs(1);

/// The tokens of the buffers that there are; none where no control service answers in time.
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
    let folder = disk::state::existing(env::state_folder())?;
    let mut found = None;
    block_on(async {
        found = tokio::time::timeout(ANSWER, own(&folder)).await.ok().flatten();
        Ok(0)
    })
    .ok()?;
    found
}

/// What the control service of this state folder says. It does not run while buffers are only kept: then it is started
/// for as long as this takes. A folder that never had buffers is left alone.
async fn own(folder: &Path) -> Option<Status> {
    let client = daemon::client::Client::new(folder.join("control.sock")).with_timeout(ANSWER);
    if let Ok(status) = client.get("/v1/status").await {
        return Some(status);
    }
    if !disk::exists(&folder.join("control.db")).unwrap_or(false) {
        return None;
    }
    let service = Service::new(folder, &Output::new(true, None));
    service.ensure_up().await.ok()?;
    let status = client.get("/v1/status").await.ok();
    service.stop_if_started().await;
    status
}
