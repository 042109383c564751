//! `forebay node lost`: an operator gives up a storage node of a cluster.

use api::control::Control;
use serde_json::json;
use wire::control::Lost;

use super::cluster::{RESTART, failure};
use crate::arguments::Node;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// Gives it up; the exit status says whether every buffer goes on.
///
/// # Errors
/// Control is not to be reached, or refuses.
pub fn run(command: &Node, output: &Output) -> Result<u8, Failure> {
    let Node::Lost { name, json } = command;
    let path = format!("/v1/nodes/{name}/lost");
    let lost: Lost = Control::patient(RESTART).post(&path, &json!({})).map_err(failure)?;
    if *json {
        output.object(&lost);
    } else {
        output.say(&text(name, &lost));
    }
    let exit = if lost.at_risk.is_empty() { ExitCode::Success } else { ExitCode::Unavailable };
    Ok(exit.number())
}

fn text(name: &str, lost: &Lost) -> String {
    let mut lines = Vec::new();
    for moved in &lost.moved {
        let nodes = moved.nodes.join(", ");
        lines.push(format!(
            "buffer {}: goes on over {nodes}; `forebay status` says when it has two copies again",
            moved.token
        ));
    }
    for risk in &lost.at_risk {
        lines.push(format!("buffer {}: LACKS what node {name} had: {}", risk.token, risk.why));
    }
    if lines.is_empty() {
        lines.push(format!("node {name} had no part of any buffer"));
    }
    lines.join("\n")
}
