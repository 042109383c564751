//! A buffer that is new, or of which a part was made again, is used once control has heard of each part that all of it
//! is on two nodes, where it is to be: else one that is lost right after could not be replaced.

use std::time::{Duration, Instant};

use wire::control::ApiError;

use super::target;
use crate::app::App;
use crate::site::Site;
use crate::state::fragments;
use crate::state::instances::Instance;

/// How long to wait for that. A node that takes longer has trouble, which `status` tells of.
const PATIENCE: Duration = Duration::from_secs(5);

/// The time between two looks: an empty part is copied within some milliseconds.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits, but no longer than that.
///
/// # Errors
/// The database's.
pub(super) async fn wait<S: Site>(app: &App<S>, instance: &Instance) -> Result<(), ApiError> {
    if !target::is_witnessed(&app.site, instance) {
        return Ok(());
    }
    let begun = Instant::now();
    let id = instance.id.clone();
    let states = app.database.transact(move |tx| fragments::states(tx, &id)).await?;
    for (node, (_, term)) in instance.nodes.iter().zip(states) {
        while !app.site.is_proven(node, &instance.id, term) {
            if begun.elapsed() > PATIENCE {
                let instance = &instance.id;
                tracing::warn!(
                    ?node,
                    ?instance,
                    "a node does not say that its part of a buffer is on two nodes"
                );
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}
