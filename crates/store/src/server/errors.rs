//! What control is told where a fragment that it asks for cannot be had.

use model::InstanceId;
use wire::advice::NEWER_DATABASE;
use wire::control::{ApiError, Blame, ErrorCode};
use wire::node::FragmentSpec;

use super::Server;
use crate::fragment::FragmentError;

impl Server {
    /// What it asks for cannot be done.
    pub(super) fn cannot(
        &self,
        code: ErrorCode,
        verb: &str,
        instance: &InstanceId,
        error: &FragmentError,
    ) -> ApiError {
        ApiError {
            code,
            blame: Blame::Site,
            message: format!("node {} cannot {verb} its part of {instance}: {error}", self.node),
            advice: "mend what the message names, then try again".into(),
        }
    }

    /// Control knows earlier keys of it, or others of the same step.
    pub(super) fn key_behind(&self, spec: &FragmentSpec, step: u64) -> ApiError {
        ApiError {
            code: ErrorCode::KeyBehind,
            blame: Blame::Site,
            message: format!(
                "node {} has key {step} of its part of {}, and control.db another key {}: it is a copy from before the \
                 key was changed",
                self.node, spec.instance, spec.key_step
            ),
            advice: NEWER_DATABASE.into(),
        }
    }

    /// Requests that came with the old key still run.
    pub(super) fn still_asked(&self, spec: &FragmentSpec) -> ApiError {
        ApiError {
            code: ErrorCode::KeyNotChanged,
            blame: Blame::Site,
            message: format!(
                "node {} changed the key of its part of {} and closed the connections made with the old key, but \
                 requests from them still run",
                self.node, spec.instance
            ),
            advice:
                "look for a hung disk on that node, or another node of the buffer that hangs; then try again"
                    .into(),
        }
    }

    /// It is not known yet whether the fragment can be served.
    pub(super) fn starting(&self, instance: &InstanceId) -> ApiError {
        ApiError {
            code: ErrorCode::FragmentStarting,
            blame: Blame::Site,
            message: format!("node {} is still starting its part of {instance}", self.node),
            advice:
                "try again: a long metadata log, or a slow disk, takes its time; the node's log says what it \
                     waits for"
                    .into(),
        }
    }

    /// Why a fragment that is here is not served.
    pub(super) fn broken(&self, instance: &InstanceId, why: &str, advice: Option<String>) -> ApiError {
        let kept = "what is on disk is kept as it is";
        ApiError {
            code: ErrorCode::FragmentBroken,
            blame: Blame::Site,
            message: format!("node {} has a part of {instance} that it cannot serve: {why}", self.node),
            advice: advice.map_or(kept.to_owned(), |advice| format!("{kept}: {advice}")),
        }
    }
}
