//! `forebay status`: pools, nodes and buffers, and what to do about each.

use std::path::PathBuf;
use std::time::Duration;

use model::phase::{Phase, StageState};
use serde::Serialize;
use wire::control::{NodeStatus, PoolStatus, SessionStatus, Status};

use super::Context;
use crate::arguments;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::{progress, render};

/// The version of the JSON shape.
const SCHEMA: u32 = 1;

/// Between two looks of `--watch`.
const AGAIN: Duration = Duration::from_secs(1);

/// Shows the status; the result is the process's exit status.
///
/// # Errors
/// The service is not to be reached.
pub async fn run(
    arguments: &arguments::Status,
    output: &Output,
    dir: Option<PathBuf>,
) -> Result<u8, Failure> {
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let shown = show(&context, arguments).await;
    context.service.stop_if_started().await;
    shown
}

async fn show(context: &Context, arguments: &arguments::Status) -> Result<u8, Failure> {
    loop {
        let report = report(context, context.service.status().await?);
        if arguments.json {
            context.output.object(&report);
        } else {
            context.output.say(&report.text());
        }
        if !arguments.watch {
            return Ok(ExitCode::Success.number());
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = context.interrupts.reached(1) => return Ok(ExitCode::Success.number()),
        }
        if !arguments.json {
            context.output.say("");
        }
    }
}

/// The object of `--json`, which `docs/CLI_ABI.md` describes.
#[derive(Debug, Serialize)]
struct Report {
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
    advice: Vec<String>,
}

/// What `forebay run` has to do with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Run {
    /// One works on it.
    Live,
    /// One did, and was interrupted or kept it.
    Interrupted,
    /// None: it is an interactive buffer.
    None,
}

fn report(context: &Context, status: Status) -> Report {
    let sessions = status.sessions.into_iter().map(|session| {
        let run = match (context.records.is_live(&session.token), context.records.read(&session.token)) {
            (true, _) => Run::Live,
            (false, Some(_)) => Run::Interrupted,
            (false, None) => Run::None,
        };
        let commands = commands(&session, run);
        Row { advice: commands.iter().map(|command| context.output.command(command)).collect(), session, run }
    });
    Report { schema: SCHEMA, sessions: sessions.collect(), pools: status.pools, nodes: status.nodes }
}

/// What the user can do about a session.
fn commands(session: &SessionStatus, run: Run) -> Vec<String> {
    let token = &session.token;
    let remove = format!("rm {token}");
    let failed_out = session.stages.iter().any(|stage| stage.state == StageState::Failed);
    match (run, session.phase) {
        (Run::Live, _) => vec![],
        (Run::Interrupted, Phase::Unmounted) if failed_out => vec![format!("stage retry {token}"), remove],
        (Run::Interrupted, Phase::StagedOut) => vec![remove],
        (Run::Interrupted, _) => vec![format!("run --resume {token}"), remove],
        (Run::None, Phase::Mounted) => session
            .activations
            .iter()
            .map(|activation| format!("umount {}", activation.mountpoint.display()))
            .collect(),
        (Run::None, _) => vec![format!("mount PATH --token {token}"), remove],
    }
}

impl Report {
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
        for node in &self.nodes {
            let error = node.last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let state = if node.online { "online" } else { "offline" };
            lines.push(format!("node {}: {state}{error}", node.name));
        }
        if self.sessions.is_empty() {
            lines.push("no buffers".to_owned());
        }
        for row in &self.sessions {
            lines.extend(row.lines());
        }
        lines.join("\n")
    }
}

impl Row {
    fn lines(&self) -> Vec<String> {
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
                "  {} {} at {}{lost}",
                render::access_mode(activation.access_mode),
                state,
                activation.mountpoint.display()
            )
        }));
        lines.extend(session.stages.iter().map(|stage| match stage.state {
            StageState::Pending | StageState::Deferred => {
                format!("  {}: {}", progress::title(stage), render::stage_state(stage.state))
            }
            _ => format!("  {}: {}", progress::title(stage), progress::describe_end(stage)),
        }));
        if let Some((function, error)) = &session.failed {
            lines.push(format!("  {} failed: {error}", render::function(*function)));
        }
        lines.extend(session.kept.iter().map(|why| format!("  kept: {why}")));
        if !self.advice.is_empty() {
            let interrupted = if self.run == Run::Interrupted { "interrupted, " } else { "" };
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
            format!(
                ", {} of {} in use, {} on {} ({})",
                render::bytes(instance.used_bytes),
                render::bytes(instance.capacity_bytes),
                render::counted(instance.nodes.len() as u64, "fragment", "fragments"),
                instance.nodes.join(" "),
                render::volume(instance.volume)
            )
        });
        let live = if self.run == Run::Live { ", being run" } else { "" };
        format!(
            "buffer {} ({}): {}{busy}{live}{room}",
            session.token,
            session.script.job_name,
            render::phase(session.phase)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn report(run: Run) -> Report {
        let session = fixtures::session();
        let advice = commands(&session, run).iter().map(|command| format!("forebay {command}")).collect();
        Report {
            schema: SCHEMA,
            pools: vec![PoolStatus {
                name: "local".into(),
                granularity_bytes: 1 << 20,
                quantity: 2048,
                free: 1024,
            }],
            nodes: vec![NodeStatus {
                name: "n0".into(),
                online: false,
                last_error: Some("killed".into()),
                ..NodeStatus::default()
            }],
            sessions: vec![Row { session, run, advice }],
        }
    }

    #[test]
    fn a_kept_buffer_says_how_full_it_is_what_failed_and_what_to_do() {
        let expected = "\
pool local: 1 GiB free of 2 GiB (grains of 1 MiB)
node n0: offline: killed
buffer 3 (stars): unmounted, 41 MiB of 1 GiB in use, 1 fragment on n0 (directory)
  stage_in /pfs/stars -> $DW_JOB_STRIPED/stars: 38 MiB, 4 entries, 2.0 s, 19 MiB/s, verified
  stage_out $DW_JOB_STRIPED/results -> /pfs/results: 2 MiB, 2 entries, 2.0 s, 1 MiB/s, FAILED (1 entry not copied)
  stage out failed: 1 of 3 entries could not be staged out; correct the cause and run `forebay stage retry 3`
  interrupted, `forebay stage retry 3` or `forebay rm 3`";
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
        session.phase = Phase::Mounted;
        assert_eq!(commands(&session, Run::Interrupted), ["run --resume 3", "rm 3"]);
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
