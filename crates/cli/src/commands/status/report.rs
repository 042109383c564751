//! What `forebay status` shows, as text and as JSON.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;
use wire::control::{NodeStatus, PoolStatus, SessionStatus, Status};

use super::next::{self, Run};
use super::row::Row;
use crate::arguments;
use crate::output::Output;
use crate::{kept_in, render};

/// The version of the JSON shape.
const SCHEMA: u32 = 1;

/// The object of `--json`, which `docs/CLI_ABI.md` describes.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: u32,
    /// Where buffers of this machine are kept.
    folder: Option<PathBuf>,
    pools: Vec<PoolStatus>,
    nodes: Vec<NodeStatus>,
    sessions: Vec<Row>,
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
        Report {
            schema: SCHEMA,
            folder: None,
            sessions: sessions.collect(),
            pools: status.pools,
            nodes: status.nodes,
        }
    }

    /// The same of buffers that are kept in the state folder `folder`.
    #[must_use]
    pub fn kept_in(self, folder: &Path) -> Report {
        Report { folder: Some(folder.to_owned()), ..self }
    }

    /// As text, or as one line of JSON. Who watches sees when it was.
    pub fn show(&self, output: &Output, arguments: &arguments::Status) {
        if arguments.json {
            output.object(self);
        } else if arguments.watch {
            let now = humantime::format_rfc3339_seconds(SystemTime::now());
            output.redraw(&format!("{now}\n{}", self.text()));
        } else {
            output.say(&self.text());
        }
    }

    fn text(&self) -> String {
        let mut lines: Vec<String> = self.folder.iter().map(|folder| kept_in::line(folder)).collect();
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

#[cfg(test)]
mod tests {
    use model::phase::StageState;

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
            folder: None,
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
  kept: its stage-out is not complete
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
        assert!(
            text.contains(&format!("buffer 3 (stars) of {}: unmounted", crate::identity::name_of(1000))),
            "{text}"
        );
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
    fn a_change_of_the_key_that_is_not_finished_is_shown_with_the_command_that_finishes_it() {
        let mut session = fixtures::session();
        assert!(!report_of(session.clone(), Run::Cluster).text().contains("key"));
        session.instance.as_mut().unwrap().finish_key = Some("forebay rekey 3".into());
        let report = report_of(session, Run::Cluster);
        assert!(report.text().contains("still opens the buffer\n    `forebay rekey 3` finishes it\n"));
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["sessions"][0]["instance"]["finish_key"], "forebay rekey 3");
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
