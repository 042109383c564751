//! The life-cycle functions, a file each, and what they share.
//!
//! Every function can be called again at any point after a crash of anything, and then converges.

pub mod beside;
pub mod buffers;
pub mod data_in;
pub mod data_out;
pub mod fragments;
pub mod job_nodes;
pub mod job_process;
pub mod lost;
pub mod mounts;
pub mod paths;
pub mod persistent;
pub mod post_run;
pub mod pre_run;
mod quarantine;
pub mod redundancy;
pub mod reuse;
pub mod served;
pub mod setup;
pub mod spread;
mod taken_before;
pub mod target;
pub mod teardown;

use daemon::error::user;
use model::phase::Phase;
use wire::control::ApiError;

use crate::cluster_site::ABSENT;
use crate::site::Site;
use crate::state::sessions::Session;

/// The codes of errors by which a function refuses a call before it has begun anything: who called is told, and
/// nothing is noted of it with the session, which is as it was.
pub const REFUSALS: [&str; 5] =
    ["no_such_session", "wrong_phase", "mounted_alone", "bad_mountpoint", "one_mountpoint"];

/// What a function did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It took its step.
    Now,
    /// An earlier call took the step.
    Already,
}

/// Refuses a function that is called out of order. That is no failure of the session.
pub fn wrong_phase(session: &Session, message: &str, advice: &str) -> ApiError {
    user("wrong_phase", format!("session {}: {message}", session.token), advice)
}

/// Refuses where `setup` has not completed, or `teardown` has.
fn require_set_up(session: &Session) -> Result<(), ApiError> {
    match session.phase {
        Phase::Registered => Err(wrong_phase(session, "nothing is allocated", "call setup first")),
        Phase::TornDown => Err(wrong_phase(session, "everything is released", "start a new session")),
        _ => Ok(()),
    }
}

/// Whether the error says that a host of a cluster does not answer, so that the others go on without it. The nodes of a
/// single machine are started again: they are waited for.
fn absent(site: &impl Site, error: &ApiError) -> bool {
    site.cluster().is_some() && error.code == ABSENT
}

/// Runs futures at once and collects their results in order.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
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
