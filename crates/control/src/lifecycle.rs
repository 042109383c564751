//! The life-cycle functions, a file each, and what they share.
//!
//! Every function can be called again at any point after a crash of anything, and then converges.

pub mod data_in;
pub mod data_out;
pub mod job_process;
pub mod mounts;
pub mod paths;
pub mod post_run;
pub mod pre_run;
pub mod setup;
pub mod staging;
pub mod target;
pub mod teardown;

use daemon::error::user;
use model::phase::Phase;
use wire::control::ApiError;

use crate::state::sessions::Session;

/// What a function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It took its step.
    Now,
    /// An earlier call took the step.
    Already,
}

/// Refuses a function that is called out of order. That is no failure of the session.
fn wrong_phase(session: &Session, message: &str, advice: &str) -> ApiError {
    user("wrong_phase", format!("session {}: {message}", session.token), advice)
}

/// Refuses where `setup` has not completed, or `teardown` has.
fn require_instance(session: &Session) -> Result<(), ApiError> {
    match session.phase {
        Phase::Registered => Err(wrong_phase(session, "nothing is allocated", "call setup first")),
        Phase::TornDown => Err(wrong_phase(session, "everything is released", "start a new session")),
        _ => Ok(()),
    }
}
