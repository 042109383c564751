//! What a user can do about a buffer.

use model::phase::{Phase, StageState};
use serde::Serialize;
use wire::control::SessionStatus;

use crate::render;

/// What `forebay run` has to do with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Run {
    /// One works on it.
    Live,
    /// One did, and was interrupted or kept it.
    Interrupted,
    /// None: it is an interactive buffer.
    None,
    /// It is on a cluster, for a job or persistent.
    Cluster,
}

/// Whether its job has ended, and what it made could not be staged out.
pub fn is_failed_out(session: &SessionStatus) -> bool {
    session.phase == Phase::Unmounted && session.stages.iter().any(|stage| stage.state == StageState::Failed)
}

/// What the user can do about a session.
pub fn commands(session: &SessionStatus, run: Run) -> Vec<String> {
    let token = &session.token;
    let remove = format!("rm {token}");
    let owed = session.quarantined.is_some();
    match (run, session.phase) {
        (Run::Live, _) => vec![],
        (Run::Cluster, _) if owed && session.busy.is_none() => vec![format!("stage retry {token}"), remove],
        // The job is still its workload manager's.
        (Run::Cluster, _) if is_failed_out(session) && session.busy.is_none() => {
            vec![format!("stage retry {token}")]
        }
        (Run::Cluster, Phase::Mounted) if session.is_by_hand() => umounts(session),
        (Run::Cluster, _) => vec![],
        (Run::Interrupted, _) if is_failed_out(session) => vec![format!("stage retry {token}"), remove],
        (Run::Interrupted, Phase::StagedOut) => vec![remove],
        (Run::Interrupted, _) => vec![format!("run --resume {token}"), remove],
        (Run::None, Phase::Mounted) => umounts(session),
        (Run::None, _) => vec![format!("mount PATH --token {token}"), remove],
    }
}

fn umounts(session: &SessionStatus) -> Vec<String> {
    let places = session.activations.iter().map(|activation| render::word(&activation.mountpoint));
    places.map(|place| format!("umount {place}")).collect()
}

/// Whether its run was ended before its end. One that was staged out was kept because somebody asked for that.
pub fn is_cut_short(session: &SessionStatus, run: Run) -> bool {
    run == Run::Interrupted && session.phase != Phase::StagedOut && !is_failed_out(session)
}
