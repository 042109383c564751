//! A buffer that is new, or of which a part was made again, is used once control has heard of each part that all of it
//! is on two nodes, where it is to be: else one that is lost right after could not be replaced.

use std::time::{Duration, Instant};

use super::target;
use crate::app::App;
use crate::site::Site;
use crate::state::instances::Instance;

/// How long that is waited for. A node that takes longer has trouble, which `status` tells of.
const PATIENCE: Duration = Duration::from_secs(5);

/// How soon it is looked again: an empty part is copied within some milliseconds.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits, but no longer than that.
pub(super) async fn wait<S: Site>(app: &App<S>, instance: &Instance) {
    let begun = Instant::now();
    for node in instance.nodes.iter().filter(|_| target::is_witnessed(&app.site, instance)) {
        while !app.site.is_proven(node, &instance.id) {
            if begun.elapsed() > PATIENCE {
                let id = &instance.id;
                tracing::warn!(
                    node,
                    instance = id,
                    "a node does not say that its part of a buffer is on two nodes"
                );
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
