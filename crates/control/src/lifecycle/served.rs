//! Whether a buffer's nodes serve all parts of it, before it is mounted. Why one does not is [`parts`]'s to say.
//!
//! **Invariant:** the nodes are asked then: what they said before may be of a life that has ended.

use std::time::{Duration, Instant};

use wire::control::{ApiError, ErrorCode};
use wire::node::PartTrouble;

use super::buffers::Buffer;
use super::{join_all, target};
use crate::app::App;
use crate::parts::{self, Refused};
use crate::site::{NodeView, Site};
use crate::state::instances::Instance;

/// How long to wait for a part that its node cannot serve yet.
const RETRIED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at it.
const RETRIED_PAUSE: Duration = Duration::from_millis(100);

/// How long to wait for a node that does not say how it is; then what it said last counts.
const ASKED_WITHIN: Duration = Duration::from_secs(2);

/// Whether all parts are served of a buffer that is to be mounted.
///
/// Who used a mount of a buffer that lacks a part would only wait. One that its node tries again by itself, as another
/// node is only just starting, is waited for. So is one that is being started: it may turn out that it cannot be
/// served, and the mount would not say why. After that it is for the mount to wait.
///
/// # Errors
/// A part is not served, or a node that control runs does not come up.
pub(crate) async fn check<S: Site>(app: &App<S>, buffer: &Buffer) -> Result<(), ApiError> {
    // Also starts those that control runs.
    target::addresses(app, &buffer.described.instance).await?;
    let begun = Instant::now();
    loop {
        let nodes = ask(app, &buffer.described.instance).await;
        let refused = parts::refused(&buffer.described.instance, &nodes);
        let is_late = begun.elapsed() > RETRIED_WITHIN;
        let Some(Refused { trouble, retried }) = refused else {
            if is_late || !is_starting(&buffer.described.instance, &nodes) {
                return Ok(());
            }
            tokio::time::sleep(RETRIED_PAUSE).await;
            continue;
        };
        if !retried || is_late {
            let PartTrouble { node, why, advice, .. } = trouble.of_buffer(&buffer.token);
            let message = format!("node {node} does not serve its part of buffer {}: {why}", buffer.token);
            return Err(daemon::error::site(ErrorCode::PartNotServed, message, advice));
        }
        tokio::time::sleep(RETRIED_PAUSE).await;
    }
}

/// All nodes: the instance's as they are now, and one that does not answer as it was seen last.
async fn ask<S: Site>(app: &App<S>, instance: &Instance) -> Vec<NodeView> {
    let asked = app.nodes().into_iter().map(async |view| {
        if !instance.nodes.contains(&view.name) {
            return view;
        }
        let begun = Instant::now();
        match tokio::time::timeout(ASKED_WITHIN, app.site.health(&view.name)).await {
            Ok(Ok(health)) => NodeView {
                online: true,
                last_error: None,
                health: Some(health),
                asked: Some(begun),
                too_new: Vec::new(),
                ..view
            },
            Ok(Err(_)) | Err(_) => view,
        }
    });
    join_all(asked).await
}

/// Whether a node that answers is still starting its part.
fn is_starting(instance: &Instance, nodes: &[NodeView]) -> bool {
    let online = nodes.iter().filter(|view| view.online && instance.nodes.contains(&view.name));
    let mut fragments = online.filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    fragments.any(|fragment| fragment.instance == instance.id && fragment.starting)
}
