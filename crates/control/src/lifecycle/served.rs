//! Whether a buffer's nodes serve all parts of it, before it is mounted. Why one does not is [`parts`]'s to say.

use std::time::{Duration, Instant};

use wire::control::ApiError;
use wire::node::PartTrouble;

use super::buffers::Buffer;
use crate::control::Control;
use crate::parts::{self, Refused};
use crate::site::{NodeView, Site};
use crate::state::instances::Instance;
use crate::state::sessions::Session;

/// How long a part is waited for that its node cannot serve yet.
const RETRIED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at it.
const RETRIED_PAUSE: Duration = Duration::from_millis(100);

/// Who used a mount of a buffer that lacks a part would only wait. One that its node tries again by itself, as another
/// node is only just starting, is waited for. So is one that is being started: it may turn out that it cannot be
/// served, and the mount would not say why. After that it is for the mount to wait.
///
/// # Errors
/// A part is not served.
pub async fn check<S: Site>(
    control: &Control<S>,
    session: &Session,
    buffer: &Buffer,
) -> Result<(), ApiError> {
    let begun = Instant::now();
    loop {
        let nodes = control.site.nodes();
        let refused = parts::refused(&buffer.described.instance, session.created_unix, &nodes);
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
            return Err(daemon::error::site("part_not_served", message, advice));
        }
        tokio::time::sleep(RETRIED_PAUSE).await;
    }
}

/// Whether a node that answers is still starting its part.
fn is_starting(instance: &Instance, nodes: &[NodeView]) -> bool {
    let online = nodes.iter().filter(|view| view.online && instance.nodes.contains(&view.name));
    let mut fragments = online.filter_map(|view| view.health.as_ref()).flat_map(|health| &health.fragments);
    fragments.any(|fragment| fragment.instance == instance.id && fragment.starting)
}
