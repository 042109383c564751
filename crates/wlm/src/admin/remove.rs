//! `dwcli rm`. Data that is still to be staged out is kept, unless `--hurry` is given.

use model::Token;
use serde_json::{Value, json};
use wire::control::{PostRun, SessionStatus, Teardown, TeardownReply};

use super::arguments::{Numbered, Remove};
use super::{AdminError, find};
use api::control::{Control, escape, session_path};

pub(super) fn run(control: &Control, what: &Remove) -> Result<String, AdminError> {
    match what {
        Remove::Session(session) => session_of(control, find::session(control, session.id)?, session),
        Remove::Instance(instance) => {
            session_of(control, find::session_of_instance(control, instance.id)?, instance)
        }
        Remove::Node(node) => {
            control.delete::<Value>(&format!("/v1/nodes/{}", escape(&node.name)))?;
            Ok(format!("removed node {}\n", node.name))
        }
    }
}

fn session_of(control: &Control, token: Token, how: &Numbered) -> Result<String, AdminError> {
    let status: SessionStatus = control.get(&session_path(token.as_str(), ""))?;
    if status.activations.iter().any(|activation| activation.mounted) {
        let unmount = PostRun { hurry: how.hurry, mountpoint: None };
        control.post::<_, Value>(&session_path(token.as_str(), "/post_run"), &unmount)?;
    }
    if status.busy.is_some() && how.hurry {
        control.post::<_, Value>(&session_path(token.as_str(), "/cancel"), &json!({}))?;
    }
    let reply: TeardownReply =
        control.post(&session_path(token.as_str(), "/teardown"), &Teardown { hurry: how.hurry })?;
    match reply.kept {
        None => Ok(format!("removed session {token}\n")),
        Some(why) => Err(AdminError::Kept { token: reply.renamed.unwrap_or(token), why }),
    }
}
