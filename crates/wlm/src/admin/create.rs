//! `dwcli create`.

use model::phase::{AccessMode, Redundancy};
use model::size;
use wire::control::{CLI, CreatePersistent, Owner, SessionStatus};

use super::AdminError;
use super::arguments::{Create, CreateInstance};
use api::control::Control;

pub(super) fn run(control: &Control, what: &Create) -> Result<String, AdminError> {
    let Create::Instance(instance) = what;
    let request = request(instance)?;
    control.post::<_, SessionStatus>("/v1/persistent", &request)?;
    Ok(format!("created {}\n", request.name))
}

fn request(instance: &CreateInstance) -> Result<CreatePersistent, AdminError> {
    let usage = |reason: String| AdminError::Usage(reason);
    let capacity_bytes =
        size::parse(&instance.capacity).map_err(|error| usage(format!("--capacity: {error}")))?;
    Ok(CreatePersistent {
        name: instance.label.clone(),
        owner: Owner {
            uid: instance.owner.unwrap_or_else(|| rustix::process::getuid().as_raw()),
            gid: instance.group.unwrap_or_else(|| rustix::process::getgid().as_raw()),
        },
        capacity_bytes,
        pool: instance.pool.clone(),
        access_modes: instance.access_mode.iter().map(|mode| access_mode(mode)).collect::<Result<_, _>>()?,
        shared: Some(instance.public),
        redundancy: instance.redundancy.as_deref().map(redundancy).transpose()?,
        caller: CLI.to_owned(),
    })
}

fn redundancy(text: &str) -> Result<Redundancy, AdminError> {
    match text {
        "none" => Ok(Redundancy::None),
        "mirror" => Ok(Redundancy::Mirror),
        other => Err(AdminError::Usage(format!("--redundancy: invalid value `{other}`: use none or mirror"))),
    }
}

/// DataWarp says `stripe` here and `striped` in scripts.
fn access_mode(text: &str) -> Result<AccessMode, AdminError> {
    match text {
        "stripe" | "striped" => Ok(AccessMode::Striped),
        "private" => Ok(AccessMode::Private),
        other => {
            Err(AdminError::Usage(format!("--access-mode: invalid value `{other}`: use stripe or private")))
        }
    }
}
