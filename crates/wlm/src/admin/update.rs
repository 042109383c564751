//! `dwcli update`.

use serde_json::json;
use wire::control::{Drain, NodeStatus};

use super::AdminError;
use super::arguments::{Update, UpdateNode};
use api::control::{Control, escape};

pub(super) fn run(control: &Control, what: &Update) -> Result<String, AdminError> {
    let Update::Node(UpdateNode { name, no_drain, reason, .. }) = what;
    let path = |verb: &str| format!("/v1/nodes/{}/{verb}", escape(name));
    if *no_drain {
        control.post::<_, NodeStatus>(&path("resume"), &json!({}))?;
        Ok(format!("node {name} is in use\n"))
    } else {
        control.post::<_, NodeStatus>(&path("drain"), &Drain { reason: reason.clone() })?;
        Ok(format!("node {name} is drained: {reason}\n"))
    }
}
