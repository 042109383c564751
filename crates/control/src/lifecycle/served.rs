//! Whether a buffer's nodes serve all parts of it, before it is mounted. Why one does not is [`parts`]'s to say.

use std::time::{Duration, Instant};

use wire::control::ApiError;
use wire::node::PartTrouble;

use super::buffers::Buffer;
use crate::control::Control;
use crate::parts::{self, Refused};
use crate::site::Site;
use crate::state::sessions::Session;

/// How long a part is waited for that its node cannot serve yet.
const RETRIED_WITHIN: Duration = Duration::from_secs(10);

/// Between two looks at it.
const RETRIED_PAUSE: Duration = Duration::from_millis(100);

/// Who used a mount of a buffer that lacks a part would only wait. One that its node tries again by itself, as another
/// node is only just starting, is waited for.
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
        let Some(Refused { trouble, retried }) = refused else { return Ok(()) };
        if !retried || begun.elapsed() > RETRIED_WITHIN {
            let PartTrouble { node, why, advice, .. } = trouble;
            let message = format!("node {node} does not serve its part of buffer {}: {why}", buffer.token);
            return Err(daemon::error::site("part_not_served", message, advice));
        }
        tokio::time::sleep(RETRIED_PAUSE).await;
    }
}
