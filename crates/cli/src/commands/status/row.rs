//! One buffer in `forebay status`.

use model::phase::{Direction, Phase, StageState};
use serde::Serialize;
use wire::control::{ActivationStatus, ApiError, Blame, ErrorCode, NodeStatus, SessionStatus};

use super::next::{self, Run};
use super::{copies, mirrors, stages};
use crate::output::Output;
use crate::retries::NOT_OUT;
use crate::{identity, render};

/// A buffer, with what is said of it beyond what control says.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    session: SessionStatus,
    /// The owner's name.
    user: String,
    run: Run,
    /// Of the stage that copies now.
    bytes_per_second: Option<f64>,
    /// Until that stage is done.
    seconds_left: Option<f64>,
    advice: Vec<String>,
    /// Lines on its stages.
    #[serde(skip)]
    stage_lines: Vec<String>,
}

/// Whose fault an error is.
fn fault(error: &ApiError) -> &'static str {
    match error.blame {
        Blame::User => "its user's or the files' fault",
        Blame::Site => "the site's fault",
        Blame::Forebay => "a bug of Forebay",
    }
}

/// What was done with it last. Of a buffer that nothing is staged out from, none of its files is out.
fn phase(session: &SessionStatus) -> &'static str {
    let has_out = session.stages.iter().any(|stage| stage.direction == Direction::Out);
    let is_out = session.phase == Phase::StagedOut;
    render::phase(if is_out && !has_out { Phase::Unmounted } else { session.phase })
}

impl Row {
    /// Of `session`.
    pub(super) fn new(session: SessionStatus, run: Run, advice: Vec<String>, output: &Output) -> Row {
        // `forebay run` said so, and control knows nothing of runs.
        let is_kept = run == Run::Interrupted && session.kept.is_none() && next::is_failed_out(&session);
        let kept = if is_kept { Some(NOT_OUT.to_owned()) } else { session.kept.clone() };
        let session = SessionStatus { kept, ..session };
        let active = session.stages.iter().find(|stage| stage.state == StageState::Active);
        let gauge = active.map(|stage| (stages::gauge(stage), &stage.progress));
        Row {
            bytes_per_second: gauge.as_ref().and_then(|(gauge, _)| gauge.rate()),
            seconds_left: gauge
                .as_ref()
                .and_then(|(gauge, of)| gauge.left(of))
                .map(|left| left.as_secs_f64()),
            stage_lines: stages::lines(&session.stages, output),
            user: identity::name_of(session.owner.uid),
            session,
            run,
            advice,
        }
    }

    /// For people.
    pub(super) fn lines(&self, nodes: &[NodeStatus]) -> Vec<String> {
        let session = &self.session;
        let mut lines = vec![self.headline()];
        lines.extend(session.activations.iter().map(|activation| self.mount(activation)));
        let instance = session.instance.iter();
        lines.extend(instance.clone().flat_map(|instance| &instance.unserved).flat_map(|part| {
            [
                format!("  the part on node {} is not served: {}", part.node, part.why),
                format!("    {}", part.advice),
            ]
        }));
        lines.extend(instance.clone().filter_map(|instance| instance.finish_key.as_ref()).flat_map(
            |command| {
                [
                    "  key: a change is not finished, and the former one still opens the buffer".to_owned(),
                    format!("    `{command}` finishes it"),
                ]
            },
        ));
        lines.extend(instance.clone().filter_map(|instance| copies::line(instance, nodes)));
        lines.extend(instance.flat_map(mirrors::lines));
        lines.extend(self.stage_lines.iter().cloned());
        lines.extend(self.failure());
        lines.extend(session.kept.iter().map(|why| format!("  kept: {why}")));
        if !self.advice.is_empty() {
            let interrupted = if next::is_cut_short(session, self.run) { "interrupted, " } else { "" };
            let commands: Vec<String> = self.advice.iter().map(|command| format!("`{command}`")).collect();
            lines.push(format!("  {interrupted}{}", commands.join(" or ")));
        }
        lines
    }

    fn mount(&self, activation: &ActivationStatus) -> String {
        let state = if activation.mounted { "mounted" } else { "not mounted" };
        let lost = match activation.interruptions {
            0 => String::new(),
            count => format!(", lost and mounted again {}", render::counted(count.into(), "time", "times")),
        };
        let mut mounts = self.session.activations.iter();
        let is_on_several = mounts.any(|other| other.node != activation.node);
        let is_named = self.run == Run::Cluster || is_on_several;
        format!(
            "  {} {} at {}{}{lost}",
            render::access_mode(activation.access_mode),
            state,
            activation.mountpoint.display(),
            if is_named { format!(" on {}", activation.node) } else { String::new() }
        )
    }

    fn failure(&self) -> Option<String> {
        let (function, error) = self.session.failed.as_ref()?;
        // What to do was said with the token, and of the node's process, that there were then.
        let is_old = self.session.quarantined.is_some() || error.code == ErrorCode::PartNotServed;
        let what = if is_old { error.message.clone() } else { error.to_string() };
        let how = match error.code {
            ErrorCode::Cancelled => "was cancelled".to_owned(),
            _ => format!("failed, {}", fault(error)),
        };
        Some(format!("  {} {how}: {what}", render::function(*function)))
    }

    fn headline(&self) -> String {
        let session = &self.session;
        let busy =
            session.busy.map(|function| format!(", {} runs", render::function(function))).unwrap_or_default();
        let room = session.instance.as_ref().map_or(String::new(), |instance| {
            if instance.nodes.is_empty() {
                return format!(", {} on the job's own nodes", render::bytes(instance.capacity_bytes));
            }
            format!(
                ", {} of {} in use, {} on {} ({})",
                render::used(instance),
                render::bytes(instance.capacity_bytes),
                render::counted(instance.nodes.len() as u64, "fragment", "fragments"),
                instance.nodes.join(" "),
                render::volume(instance.volume)
            )
        });
        let dirty = match session.bytes_dirty {
            0 => String::new(),
            bytes => format!(", at most {} not staged out", render::bytes(bytes)),
        };
        let whose = if self.run == Run::Cluster { format!(" of {}", self.user) } else { String::new() };
        let name = match session.script.job_name.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let live = if self.run == Run::Live { ", being run" } else { "" };
        format!("buffer {}{name}{whose}: {}{busy}{live}{room}{dirty}", session.token, phase(session))
    }
}
