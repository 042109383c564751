//! `forebay local`: private volumes on this node's flash, for the prolog and epilog of a workload manager.

use api::CallError;
use daemon::client::Client;
use wire::control::Owner;
use wire::node::{LocalSpec, LocalStatus};

use crate::arguments::{Local, LocalNode};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// Runs the command; the result is the process's exit status.
///
/// # Errors
/// The node service does not answer, or refuses.
pub async fn run(arguments: &Local, output: &Output) -> Result<u8, Failure> {
    match arguments {
        Local::Create { id, user, uid, gid, capacity, node } => {
            let capacity_bytes = capacity.as_deref().map(model::size::parse).transpose();
            let spec = LocalSpec {
                id: id.clone(),
                owner: Owner { uid: *uid, gid: gid.unwrap_or(*uid) },
                user: user.clone(),
                capacity_bytes: capacity_bytes
                    .map_err(|error| Failure::usage(format!("--capacity: {error}"), "write it as 1.4TB"))?,
                drain: None,
            };
            let made: Result<LocalStatus, _> = client(node).put(&format!("/v1/locals/{id}"), &spec).await;
            let status = made.map_err(|error| failure(node, error))?;
            output.say(&status.path.display().to_string());
        }
        Local::Release { id, node } => {
            let released: Result<serde_json::Value, _> =
                client(node).delete(&format!("/v1/locals/{id}")).await;
            released.map_err(|error| failure(node, error))?;
        }
        Local::List { json, node } => {
            let listed: Result<Vec<LocalStatus>, _> = client(node).get("/v1/locals").await;
            for status in listed.map_err(|error| failure(node, error))? {
                match json {
                    true => output.object(&status),
                    false => output.say(&line(&status)),
                }
            }
        }
    }
    Ok(ExitCode::Success.number())
}

fn client(node: &LocalNode) -> Client {
    Client::new(&node.node)
}

fn line(status: &LocalStatus) -> String {
    let state = match (&status.kept, status.released) {
        (Some(why), true) => format!("kept after its job: {why}"),
        (Some(why), false) => format!("in trouble: {why}"),
        (None, true) => "is drained after its job".to_owned(),
        (None, false) => format!("at {}", status.path.display()),
    };
    format!("{}: {}, {state}", status.id, render::bytes(status.capacity_bytes))
}

fn failure(node: &LocalNode, error: CallError) -> Failure {
    match error {
        CallError::Refused(error) => Failure::Api(error),
        error => Failure::unavailable(
            format!("ask the node service at {}: {}", node.node.display(), error.reason()),
            "start forebay-node, and run this as root",
        ),
    }
}
