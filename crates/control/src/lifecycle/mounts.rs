//! What `pre_run`, `post_run` and `teardown` share: where mounts are and how they are taken away.

use std::path::PathBuf;

use model::phase::AccessMode;
use wire::control::ApiError;

use crate::control::Control;
use crate::site::Site;
use crate::state::activations::{self, Activation};

/// The compute node of jobs on one machine.
pub const COMPUTE_NODE: &str = "n0";

/// A mode's word in paths and ids.
pub fn word(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Striped => "striped",
        AccessMode::Private => "private",
    }
}

/// The node's name for a session's mount.
pub fn mount_id(token: &str, mode: AccessMode) -> String {
    format!("{token}-{}", word(mode))
}

/// Where a namespace is mounted unless the caller names a place.
pub fn default_mountpoint<S: Site>(control: &Control<S>, token: &str, mode: AccessMode) -> PathBuf {
    control.site.mount_folder().join(token).join(word(mode))
}

/// Unmounts all that the session has mounted. The counts of interruptions are kept for the summary.
///
/// # Errors
/// A node does not let go; the rest is still noted as mounted.
pub async fn unmount_all<S: Site>(control: &Control<S>, token: &str, hurry: bool) -> Result<(), ApiError> {
    let name = token.to_owned();
    let all = control.database.transact(move |tx| activations::of(tx, &name)).await?;
    for activation in all.into_iter().filter(|activation| activation.mounted) {
        let id = mount_id(token, activation.access_mode);
        let last = control.site.health(&activation.node).await.ok();
        let seen = last.iter().flat_map(|health| &health.mounts).find(|mount| mount.id == id);
        let interruptions = seen.map_or(activation.interruptions, |mount| mount.interruptions);
        control.site.unmount(&activation.node, &id, hurry).await?;
        let gone = Activation { mounted: false, interruptions, ..activation };
        let name = token.to_owned();
        control.database.transact(move |tx| activations::set(tx, &name, &gone)).await?;
    }
    Ok(())
}
