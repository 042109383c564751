//! The life-cycle functions, a file each, and what they share.
//!
//! Every function can be called again at any point after a crash of anything, and then converges.

pub(crate) mod behind;
pub(crate) mod beside;
pub(crate) mod buffers;
pub(crate) mod data_in;
pub(crate) mod data_out;
mod doubt;
pub(crate) mod encrypted;
pub(crate) mod fragments;
pub(crate) mod job_process;
mod known;
mod lacking;
pub(crate) mod lost;
pub(crate) mod mounting;
pub(crate) mod mounts;
pub(crate) mod paths;
pub(crate) mod persistent;
pub(crate) mod post_run;
pub(crate) mod pre_run;
mod proven;
mod quarantine;
pub(crate) mod redundancy;
pub(crate) mod rekey;
mod remade;
pub(crate) mod reuse;
pub(crate) mod served;
pub(crate) mod setup;
pub(crate) mod squash;
mod taken_before;
pub(crate) mod target;
pub(crate) mod teardown;

use daemon::error::user;
use model::phase::Phase;
use wire::control::{ApiError, ErrorCode};

use crate::site::Site;
use crate::state::sessions::Session;

/// The codes of errors by which a function refuses a call before it has begun anything: who called is told, and
/// nothing is noted of it with the session, which is as it was.
pub(crate) const REFUSALS: [ErrorCode; 7] = [
    ErrorCode::NoSuchSession,
    ErrorCode::BufferInUse,
    ErrorCode::WrongPhase,
    ErrorCode::Released,
    ErrorCode::MountedAlone,
    ErrorCode::BadMountpoint,
    ErrorCode::OneMountpoint,
];

/// What a function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It took its step.
    Now,
    /// An earlier call took the step.
    Already,
}

/// Refuses a function that is called out of order. That is no failure of the session.
pub(crate) fn wrong_phase(session: &Session, message: &str, advice: &str) -> ApiError {
    user(ErrorCode::WrongPhase, format!("session {}: {message}", session.token), advice)
}

/// Refuses where `setup` has not completed, or `teardown` has.
fn require_set_up(session: &Session) -> Result<(), ApiError> {
    match session.phase {
        Phase::Registered => Err(wrong_phase(session, "nothing is allocated", "call setup first")),
        Phase::TornDown => {
            let message = format!("session {}: everything is released", session.token);
            Err(user(ErrorCode::Released, message, "start a new session"))
        }
        _ => Ok(()),
    }
}

/// Whether the error says that a host of a cluster does not answer, so that the others go on without it. The nodes of a
/// single machine are started again: they are waited for.
pub(crate) fn absent(site: &impl Site, error: &ApiError) -> bool {
    site.cluster().is_some() && error.code == ErrorCode::NodeAbsent
}

/// Runs futures at once and collects their results in order.
pub(crate) async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut all_done = true;
        for (future, output) in pending.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                std::task::Poll::Ready(done) => *output = Some(done),
                std::task::Poll::Pending => all_done = false,
            }
        }
        if all_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    pending.into_iter().filter_map(|(_, output)| output).collect()
}
