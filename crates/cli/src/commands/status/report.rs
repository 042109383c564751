//! What `forebay status` shows, as text and as JSON.

use model::phase::StageState;
use serde::Serialize;
use wire::control::{ApiError, Blame, ErrorCode, NodeStatus, PoolStatus, SessionStatus, Status};

use super::next::{self, Run};
use super::{copies, mirrors, stages};
use crate::output::Output;
use crate::render;

/// The version of the JSON shape.
const SCHEMA: u32 = 1;

/// The object of `--json`, which `docs/CLI_ABI.md` describes.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    pools: Vec<PoolStatus>,
    nodes: Vec<NodeStatus>,
    sessions: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    session: SessionStatus,
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

impl Report {
    /// What is to be shown of `status`; `run_of` says what has to do with a session.
    pub fn of(status: Status, output: &Output, run_of: impl Fn(&SessionStatus) -> Run) -> Report {
        let sessions = status.sessions.into_iter().map(|session| {
            let run = run_of(&session);
            let commands = next::commands(&session, run);
            let advice = commands.iter().map(|command| output.command(command)).collect();
            Row::new(session, run, advice, output)
        });
        Report { schema: SCHEMA, sessions: sessions.collect(), pools: status.pools, nodes: status.nodes }
    }

    /// As text, or as one line of JSON.
    pub fn show(&self, output: &Output, json: bool) {
        if json {
            output.object(self);
        } else {
            output.say(&self.text());
        }
    }

    fn text(&self) -> String {
        let mut lines = Vec::new();
        for pool in &self.pools {
            let amount = |grains: u64| render::bytes(grains.saturating_mul(pool.granularity_bytes));
            lines.push(format!(
                "pool {}: {} free of {} (grains of {})",
                pool.name,
                amount(pool.free),
                amount(pool.quantity),
                render::bytes(pool.granularity_bytes)
            ));
        }
        lines.extend(self.nodes.iter().map(node_line));
        if self.sessions.is_empty() {
            lines.push("no buffers".to_owned());
        }
        for row in &self.sessions {
            lines.extend(row.lines(&self.nodes));
        }
        lines.join("\n")
    }
}

fn node_line(node: &NodeStatus) -> String {
    let mut line = format!("node {}: {}", node.name, if node.online { "online" } else { "offline" });
    if let Some(why) = &node.drained {
        line += &format!(", drained ({why})");
    }
    if node.capacity_bytes > 0 {
        line += &format!(
            ", {} of {} allocated to {}",
            render::bytes(node.allocated_bytes),
            render::bytes(node.capacity_bytes),
            render::counted(node.fragments.into(), "fragment", "fragments")
        );
    }
    if node.activations > 0 {
        line += &format!(", {}", render::counted(node.activations.into(), "mount", "mounts"));
    }
    line + &node
        .last_error
        .as_ref()
        .filter(|_| !node.online)
        .map(|error| format!(": {error}"))
        .unwrap_or_default()
}

/// Whose fault an error is.
fn fault(error: &ApiError) -> &'static str {
    match error.blame {
        Blame::User => "the script's or its files' fault",
        Blame::Site => "the site's fault",
        Blame::Forebay => "a bug of Forebay",
    }
}

impl Row {
    fn new(session: SessionStatus, run: Run, advice: Vec<String>, output: &Output) -> Row {
        let active = session.stages.iter().find(|stage| stage.state == StageState::Active);
        let gauge = active.map(|stage| (stages::gauge(stage), &stage.progress));
        Row {
            bytes_per_second: gauge.as_ref().and_then(|(gauge, _)| gauge.rate()),
            seconds_left: gauge
                .as_ref()
                .and_then(|(gauge, of)| gauge.left(of))
                .map(|left| left.as_secs_f64()),
            stage_lines: stages::lines(&session.stages, output),
            session,
            run,
            advice,
        }
    }

    fn lines(&self, nodes: &[NodeStatus]) -> Vec<String> {
        let session = &self.session;
        let mut lines = vec![self.headline()];
        lines.extend(session.activations.iter().map(|activation| {
            let state = if activation.mounted { "mounted" } else { "not mounted" };
            let lost = match activation.interruptions {
                0 => String::new(),
                count => {
                    format!(", lost and mounted again {}", render::counted(count.into(), "time", "times"))
                }
            };
            format!(
                "  {} {} at {}{}{lost}",
                render::access_mode(activation.access_mode),
                state,
                activation.mountpoint.display(),
                if self.run == Run::Cluster { format!(" on {}", activation.node) } else { String::new() }
            )
        }));
        let instance = session.instance.iter();
        lines.extend(instance.clone().flat_map(|instance| &instance.unserved).flat_map(|part| {
            [
                format!("  the part on node {} is not served: {}", part.node, part.why),
                format!("    {}", part.advice),
            ]
        }));
        lines.extend(instance.clone().filter_map(|instance| copies::line(instance, nodes)));
        lines.extend(instance.flat_map(mirrors::lines));
        lines.extend(self.stage_lines.iter().cloned());
        if let Some((function, error)) = &session.failed {
            // What to do was said with the token, and of the node's process, that there were then.
            let is_old = session.quarantined.is_some() || error.code == ErrorCode::PartNotServed;
            let what = if is_old { error.message.clone() } else { error.to_string() };
            lines.push(format!("  {} failed, {}: {what}", render::function(*function), fault(error)));
        }
        lines.extend(session.kept.iter().map(|why| format!("  kept: {why}")));
        if !self.advice.is_empty() {
            let interrupted = if next::is_cut_short(session, self.run) { "interrupted, " } else { "" };
            let commands: Vec<String> = self.advice.iter().map(|command| format!("`{command}`")).collect();
            lines.push(format!("  {interrupted}{}", commands.join(" or ")));
        }
        lines
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
        let whose =
            if self.run == Run::Cluster { format!(" of user {}", session.owner.uid) } else { String::new() };
        let name = match session.script.job_name.as_str() {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let live = if self.run == Run::Live { ", being run" } else { "" };
        format!(
            "buffer {}{name}{whose}: {}{busy}{live}{room}{dirty}",
            session.token,
            render::phase(session.phase)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn report(run: Run) -> Report {
        report_of(fixtures::session(), run)
    }

    fn report_of(session: SessionStatus, run: Run) -> Report {
        let advice =
            next::commands(&session, run).iter().map(|command| format!("forebay {command}")).collect();
        Report {
            schema: SCHEMA,
            pools: vec![PoolStatus {
                name: "local".into(),
                granularity_bytes: 1 << 20,
                quantity: 2048,
                free: 1024,
            }],
            nodes: vec![NodeStatus {
                name: "n0".parse().unwrap(),
                online: false,
                last_error: Some("killed".into()),
                ..NodeStatus::default()
            }],
            sessions: vec![Row::new(session, run, advice, &Output::new(false, None))],
        }
    }

    #[test]
    fn a_kept_buffer_says_how_full_it_is_what_failed_and_what_to_do() {
        let expected = "\
pool local: 1 GiB free of 2 GiB (grains of 1 MiB)
node n0: offline: killed
buffer 3 (stars): unmounted, 41 MiB of 1 GiB in use, 1 fragment on n0 (directory)
  metadata: one copy, as the buffer is on one node
  data: one copy
  stage_in /pfs/stars -> $DW_JOB_STRIPED/stars: 38 MiB, 4 entries, 2.0 s, 19 MiB/s, verified
  stage_out $DW_JOB_STRIPED/results -> /pfs/results: 2 MiB, 2 entries, 2.0 s, 1 MiB/s, FAILED (1 entry not copied)
  stage out failed, the site's fault: 1 of 3 entries could not be staged out; correct the cause and run `forebay stage retry 3`
  `forebay stage retry 3` or `forebay rm 3`";
        assert_eq!(report(Run::Interrupted).text(), expected);
    }

    #[test]
    fn a_buffer_that_is_being_run_is_left_alone() {
        let text = report(Run::Live).text();
        assert!(text.contains("being run"), "{text}");
        assert!(!text.contains("forebay rm"), "{text}");
    }

    #[test]
    fn a_run_that_was_killed_in_the_middle_can_be_resumed() {
        let mut session = fixtures::session();
        session.stages.clear();
        session.phase = model::phase::Phase::Mounted;
        assert_eq!(next::commands(&session, Run::Interrupted), ["run --resume 3", "rm 3"]);
    }

    #[test]
    fn a_jobs_buffer_on_a_cluster_shows_what_is_left_how_fast_it_goes_and_whose_it_is() {
        let mut session = fixtures::session();
        (session.failed, session.bytes_dirty) = (None, 6 << 20);
        session.stages.remove(0);
        session.stages[0].state = StageState::Active;
        session.stages[0].progress.entries_failed = 0;
        session.stages[0].progress.bytes_verified = 1 << 20;
        let report = report_of(session, Run::Cluster);
        let text = report.text();
        assert!(text.contains("buffer 3 (stars) of user 1000: unmounted"), "{text}");
        assert!(text.contains("at most 6 MiB not staged out"), "{text}");
        assert!(text.contains("2 MiB of 3 MiB, 2 of 3 entries, 1 MiB/s, 2.0 s left"), "{text}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sessions"][0]["bytes_per_second"], 1_048_576.0);
        assert_eq!(json["sessions"][0]["seconds_left"], 2.0);
    }

    #[test]
    fn what_was_quarantined_on_a_cluster_can_be_staged_out_or_removed() {
        let mut session = fixtures::session();
        assert_eq!(next::commands(&session, Run::Cluster), ["stage retry 3"]);
        session.quarantined = Some(model::Token::literal("70001"));
        assert_eq!(next::commands(&session, Run::Cluster), ["stage retry 3", "rm 3"]);
    }

    #[test]
    fn the_json_has_the_sessions_fields_beside_ours() {
        let json = serde_json::to_value(report(Run::Interrupted)).unwrap();
        assert_eq!(json["sessions"][0]["token"], "3");
        assert_eq!(json["sessions"][0]["run"], "interrupted");
        assert_eq!(json["sessions"][0]["advice"][0], "forebay stage retry 3");
        assert_eq!(json["pools"][0]["free"], 1024);
    }
}
