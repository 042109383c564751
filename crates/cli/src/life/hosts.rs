//! What a life has to do with the hosts that its buffer is mounted on.

use model::phase::Phase;
use wire::control::{ApiError, PreRun, SessionStatus};

use super::{Ending, Life};
use crate::failure::Failure;

/// After a stage-out that failed.
const AGAIN: &str = "mend that, then run the command again";

impl Life<'_> {
    /// The machines under the buffer are gone, and it with them.
    pub async fn abandon(&mut self, failure: Failure) -> Ending {
        self.end_group().await;
        if self.told.status.as_ref().is_some_and(|status| status.phase >= Phase::StagedOut) {
            self.session.output.note(&format!("forebay: note: all was staged out before this: {failure}"));
            return Ending::Completed;
        }
        Ending::Failed(failure)
    }

    /// Where it is to be mounted.
    pub(super) fn mounts(&self) -> PreRun {
        PreRun { hosts: self.record.hosts.clone(), ..PreRun::default() }
    }

    /// A buffer over the hosts of an allocation is kept by nobody: what is lost is said, and nothing is advised that
    /// would need the buffer.
    pub(super) fn as_nothing_is_kept(&mut self, ending: Ending) -> Ending {
        if self.record.hosts.is_empty() {
            return ending;
        }
        if let Some(why) = self.told.kept.take() {
            self.session.output.note(&format!(
                "forebay: {why}; the buffer ends with this command, and what is in it and not staged out is lost"
            ));
        }
        match ending {
            Ending::StageOutFailed(error) => {
                Ending::StageOutFailed(ApiError { advice: AGAIN.into(), ..error })
            }
            other => other,
        }
    }
}

/// How often mounts died.
pub(super) fn losses(status: Option<&SessionStatus>) -> u32 {
    status.iter().flat_map(|status| &status.activations).map(|activation| activation.interruptions).sum()
}
