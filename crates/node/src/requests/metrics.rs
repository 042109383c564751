//! `GET /metrics`.

use std::sync::Arc;

use axum::extract::State;
use model::phase::StageState;
use server::Refusal;
use server::metrics::{Metrics, number};
use wire::node::NodeHealth;

use crate::node::Node;

/// What the node holds and does, in numbers.
pub(super) async fn metrics(State(node): State<Arc<Node>>) -> Result<Metrics, Refusal> {
    Ok(describe(&node.health().await?))
}

fn describe(health: &NodeHealth) -> Metrics {
    let mut metrics = Metrics::new("node");
    let node = || ("node", health.name.to_string());
    let each_fragment = |value: fn(&wire::node::FragmentStatus) -> u64| {
        let numbers = health.fragments.iter().map(move |fragment| {
            (
                vec![("node", health.name.to_string()), ("instance", fragment.instance.to_string())],
                number(value(fragment)),
            )
        });
        numbers.collect::<Vec<_>>()
    };
    metrics.add(
        "fragment_capacity_bytes",
        "Bytes that a fragment may hold",
        each_fragment(|fragment| fragment.capacity_bytes),
    );
    metrics.add(
        "fragment_used_bytes",
        "Bytes that a fragment holds",
        each_fragment(|fragment| fragment.used_bytes),
    );
    let broken = health.fragments.iter().filter(|fragment| fragment.error.is_some()).count();
    metrics.add(
        "fragments_broken",
        "Fragments that cannot be served",
        [(vec![node()], number(broken as u64))],
    );
    let mounted = health.mounts.iter().filter(|mount| mount.mounted).count();
    metrics.add("mounts", "Namespaces that are mounted", [(vec![node()], number(mounted as u64))]);
    let interruptions = health.mounts.iter().map(|mount| u64::from(mount.interruptions)).sum();
    metrics.add(
        "mount_interruptions",
        "How often the present mounts were lost and made anew",
        [(vec![node()], number(interruptions))],
    );
    let active = || health.stages.iter().filter(|stage| stage.state == StageState::Active);
    metrics.add("stages_active", "Stages that copy", [(vec![node()], number(active().count() as u64))]);
    let left =
        active().map(|stage| stage.progress.bytes_total.saturating_sub(stage.progress.bytes_done)).sum();
    metrics.add(
        "stage_left_bytes",
        "Bytes that active stages still have to copy",
        [(vec![node()], number(left))],
    );
    let failed = health.stages.iter().filter(|stage| stage.state == StageState::Failed).count();
    metrics.add("stages_failed", "Stages that failed", [(vec![node()], number(failed as u64))]);
    metrics
}
