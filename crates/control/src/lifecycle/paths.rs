//! `paths` and `real_size`: what the job is told. Both only look.

use std::collections::BTreeMap;

use model::phase::AccessMode;
use wire::control::{ApiError, Paths, RealSize};

use super::mounts::default_mountpoint;
use super::require_instance;
use crate::control::Control;
use crate::site::Site;
use crate::state::{activations, instances};

/// The job's environment; may be asked before the mounts are there, as Slurm does.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub async fn paths<S: Site>(control: &Control<S>, token: &str) -> Result<Paths, ApiError> {
    let session = control.session(token).await?;
    require_instance(&session)?;
    let name = token.to_owned();
    let read =
        move |tx: &rusqlite::Transaction<'_>| Ok((instances::find(tx, &name)?, activations::of(tx, &name)?));
    let (instance, mounts) = control.database.transact(read).await?;
    let mut variables = BTreeMap::new();
    for mode in instance.map(|instance| instance.access_modes).unwrap_or_default() {
        let mounted = mounts.iter().find(|activation| activation.access_mode == mode && activation.mounted);
        let mountpoint = mounted.map_or_else(
            || default_mountpoint(control, token, mode),
            |activation| activation.mountpoint.clone(),
        );
        variables.insert(variable(mode).to_owned(), format!("{}/", mountpoint.display()));
    }
    Ok(Paths { variables })
}

/// What was really allocated.
///
/// # Errors
/// `no_such_session`, or nothing is allocated.
pub async fn real_size<S: Site>(control: &Control<S>, token: &str) -> Result<RealSize, ApiError> {
    let session = control.session(token).await?;
    require_instance(&session)?;
    let name = token.to_owned();
    let instance = control.database.transact(move |tx| instances::find(tx, &name)).await?;
    let capacity = instance.map(|instance| instance.capacity_bytes).unwrap_or_default();
    Ok(RealSize { capacity, units: "bytes".to_owned() })
}

fn variable(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Striped => "DW_JOB_STRIPED",
        AccessMode::Private => "DW_JOB_PRIVATE",
    }
}
