//! `GET /metrics`.

use axum::extract::State;
use model::phase::{Direction, Phase, StageState};
use server::Refusal;
use server::metrics::{Metrics, number};
use wire::control::{NodeStatus, PoolStatus, SessionStatus, StageStatus};

use super::{Handler, nodes};
use crate::lifecycle::job_process;
use crate::rights::Rights;
use crate::site::Site;
use crate::state::sessions;

/// Pools, nodes and sessions, in numbers. Names of users and jobs are not among them: everybody may read this.
pub(super) async fn metrics<S: Site>(State(handler): State<Handler<S>>) -> Result<Metrics, Refusal> {
    let app = &handler.app;
    let mut all = Vec::new();
    for session in app.database.transact(sessions::living).await? {
        all.push(crate::status::of(&handler.app, session, Rights::Operator).await?);
    }
    let mut metrics = Metrics::new("control");
    add_pools(&mut metrics, &job_process::pools(app).await?);
    let nodes = nodes::describe_all(&handler).await?;
    add_nodes(&mut metrics, &nodes);
    add_unserved(&mut metrics, &nodes, &all);
    add_sessions(&mut metrics, &all);
    Ok(metrics)
}

fn add_pools(metrics: &mut Metrics, pools: &[PoolStatus]) {
    let mut add = |name, help, value: fn(&PoolStatus) -> u64| {
        let numbers = pools.iter().map(|pool| (vec![("pool", pool.name.clone())], number(value(pool))));
        metrics.add(name, help, numbers);
    };
    add("pool_bytes", "Bytes in a pool", |pool| pool.quantity * pool.granularity_bytes);
    add("pool_free_bytes", "Bytes that can be allocated", |pool| pool.free * pool.granularity_bytes);
    add("pool_granularity_bytes", "Bytes in a grain", |pool| pool.granularity_bytes);
}

fn add_nodes(metrics: &mut Metrics, nodes: &[NodeStatus]) {
    let mut add = |name, help, value: fn(&NodeStatus) -> u64| {
        let numbers = nodes.iter().map(|node| (vec![("node", node.name.to_string())], number(value(node))));
        metrics.add(name, help, numbers);
    };
    add("node_online", "Whether a node answers", |node| node.online.into());
    add("node_drained", "Whether a node gets nothing new", |node| node.drained.is_some().into());
    add("node_capacity_bytes", "Bytes of flash on a node", |node| node.capacity_bytes);
    add("node_allocated_bytes", "Bytes of them that are allocated", |node| node.allocated_bytes);
    add("node_activations", "Namespaces mounted on a node", |node| node.activations.into());
}

/// The same parts that `forebay status` names. A node counts only what it finds on its disk; what it lost with that
/// disk nobody else counts.
fn add_unserved(metrics: &mut Metrics, nodes: &[NodeStatus], sessions: &[SessionStatus]) {
    let parts = || sessions.iter().filter_map(|session| session.instance.as_ref()).flat_map(|i| &i.unserved);
    let numbers = nodes.iter().map(|node| {
        let count = parts().filter(|part| part.node == node.name).count();
        (vec![("node", node.name.to_string())], number(count as u64))
    });
    metrics.add("parts_unserved", "Parts of buffers that should be on a node and are not served", numbers);
}

fn add_sessions(metrics: &mut Metrics, sessions: &[SessionStatus]) {
    let phase = |session: &SessionStatus| {
        serde_json::to_value(session.phase)
            .ok()
            .and_then(|word| word.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    let mut phases: Vec<String> = sessions.iter().map(phase).collect();
    phases.sort();
    phases.dedup();
    let count =
        |wanted: &String| number(sessions.iter().filter(|session| phase(session) == *wanted).count() as u64);
    let by_phase: Vec<_> =
        phases.iter().map(|phase| (vec![("phase", phase.clone())], count(phase))).collect();
    metrics.add("sessions", "Sessions by the last function that they completed", by_phase);
    let mut add = |name, help, value: u64| metrics.add(name, help, [(Vec::new(), number(value))]);
    let total = |value: fn(&SessionStatus) -> u64| sessions.iter().map(value).sum();
    add("sessions_failed", "Sessions whose last function failed", total(|s| s.failed.is_some().into()));
    add("sessions_kept", "Sessions that are kept as their data is owed", total(|s| is_kept(s).into()));
    add("dirty_bytes", "Bytes that stage-outs may still have to save", total(|s| s.bytes_dirty));
    add("left_bytes", "Bytes that active stages still have to copy", total(|s| s.bytes_left));
    let failed = |session: &SessionStatus| {
        session.stages.iter().filter(|stage| stage.state == StageState::Failed).count() as u64
    };
    add("stages_failed", "Stages that failed and were not done since", sessions.iter().map(failed).sum());
}

/// Whether its data is owed and kept: its teardown found that, or a stage-out that failed says so.
fn is_kept(session: &SessionStatus) -> bool {
    let failed_out =
        |stage: &StageStatus| stage.direction == Direction::Out && stage.state == StageState::Failed;
    session.kept.is_some() || session.phase == Phase::Unmounted && session.stages.iter().any(failed_out)
}
