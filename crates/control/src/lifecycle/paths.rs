//! `paths` and `real_size`: what the job is told. Both only look.

use std::collections::BTreeMap;

use wire::control::{ApiError, Paths, RealSize};

use super::mounts::default_mountpoint;
use super::require_set_up;
use super::{buffers, job_nodes};
use crate::app::App;
use crate::site::Site;
use crate::state::{activations, instances, transfers};

/// The job's environment; may be asked before the mounts are there, as Slurm does.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub(crate) async fn paths<S: Site>(app: &App<S>, token: &str) -> Result<Paths, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let name = token.to_owned();
    let read = move |tx: &rusqlite::Transaction<'_>| {
        Ok((activations::of(tx, &name)?, transfers::of_script(tx, &name)?))
    };
    let (mounts, stages) = app.database.transact(read).await?;
    let mut variables = BTreeMap::new();
    for buffer in buffers::of(app, &session).await? {
        for mode in buffer.described.instance.access_modes.clone() {
            let mounted = mounts.iter().find(|activation| {
                activation.mounted && activation.access_mode == mode && activation.buffer == buffer.name
            });
            let is_volume = buffer.described.instance.is_private_volumes();
            let mountpoint = match mounted {
                Some(activation) => activation.mountpoint.clone(),
                None if is_volume => job_nodes::path(&app.site, &session),
                None => default_mountpoint(&app.site.mount_folder(), token, &buffer.name, mode),
            };
            if is_volume {
                variables.extend(job_nodes::variables(&mountpoint, &buffer.described.instance, &stages));
            }
            variables.insert(transfers::variable(&buffer.name, mode), format!("{}/", mountpoint.display()));
        }
    }
    Ok(Paths { variables })
}

/// What was really allocated.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub(crate) async fn real_size<S: Site>(app: &App<S>, token: &str) -> Result<RealSize, ApiError> {
    let session = app.session(token).await?;
    require_set_up(&session)?;
    let name = token.to_owned();
    let instance = app.database.transact(move |tx| instances::find(tx, &name)).await?;
    let capacity = instance.map(|instance| instance.capacity_bytes).unwrap_or_default();
    Ok(RealSize { capacity, units: "bytes".to_owned() })
}
