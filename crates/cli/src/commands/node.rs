//! `forebay node lost`: an operator gives up a storage node of a cluster, or what one of this machine had.

use std::path::PathBuf;

use wire::control::{Damaged, GiveUp, Lost};

use super::Context;
use super::cluster::Control;
use crate::arguments::Node;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;
use crate::render;

/// What is asked of control.
fn request(command: &Node) -> (String, GiveUp) {
    let Node::Lost { name, accept_loss, .. } = command;
    (format!("/v1/nodes/{name}/lost"), GiveUp { accept_loss: *accept_loss })
}

/// Has this user's own service make again what a node of this machine had; the exit status says whether every buffer
/// goes on.
///
/// # Errors
/// It is not to be reached, or refuses.
pub async fn run(command: &Node, output: &Output, dir: Option<PathBuf>) -> Result<u8, Failure> {
    let context = Context::open(output, dir)?;
    context.service.ensure_up().await?;
    let (path, asked) = request(command);
    let lost = context.service.post(&path, &asked).await;
    context.service.stop_if_started().await;
    Ok(told(command, &lost?, false, output))
}

/// Gives up a node of a cluster, likewise.
///
/// # Errors
/// As [`run`].
pub fn cluster_run(command: &Node, output: &Output) -> Result<u8, Failure> {
    let (path, asked) = request(command);
    let lost = Control::of_cluster(output).post(&path, &asked)?;
    Ok(told(command, &lost, true, output))
}

fn told(command: &Node, lost: &Lost, cluster: bool, output: &Output) -> u8 {
    let Node::Lost { name, json, .. } = command;
    if *json {
        output.object(lost);
    } else {
        output.say(&text(name, lost, cluster));
    }
    let is_whole = lost.at_risk.is_empty() && lost.damaged.is_empty();
    let exit = if is_whole { ExitCode::Success } else { ExitCode::Unavailable };
    exit.number()
}

fn text(name: &str, lost: &Lost, cluster: bool) -> String {
    let mut lines = Vec::new();
    for moved in &lost.moved {
        let nodes = moved.nodes.join(", ");
        lines.push(format!(
            "buffer {}: goes on over {nodes}; `forebay status` says when it has two copies again",
            moved.token
        ));
    }
    lines.extend(lost.damaged.iter().flat_map(|damaged| lacking(name, damaged)));
    for damaged in lost.damaged.iter().filter(|damaged| damaged.names_lack) {
        lines.push(format!(
            "buffer {}: names and attributes that an fsync confirmed MAY BE MISSING OR OLD: the copy that they were \
             taken from may have lacked them",
            damaged.token
        ));
    }
    for risk in &lost.at_risk {
        let lacks = if cluster { "LACKS what" } else { "NOT made again of what" };
        lines.push(format!("buffer {}: {lacks} node {name} had: {}", risk.token, risk.why));
    }
    if lines.is_empty() {
        lines.push(format!("node {name} had no part of any buffer"));
    }
    let drained = format!(
        "node {name} is drained; when it is back, `dwcli update node --name {name} --no-drain` puts it to use again"
    );
    lines.extend(cluster.then_some(drained));
    lines.join("\n")
}

/// What is said of a buffer that goes on without something.
fn lacking(name: &str, damaged: &Damaged) -> Vec<String> {
    let (token, nodes) = (&damaged.token, damaged.nodes.join(", "));
    let mut lines = vec![format!(
        "buffer {token}: goes on over {nodes} WITHOUT data that only node {name} had. Reading it fails with EIO \
         until the file is written anew or removed; `forebay scrub {token}` lists the places. Files that had \
         data there:"
    )];
    lines.extend(damaged.files.files.iter().map(|file| format!("  {}", render::on_one_line(file))));
    if damaged.files.more > 0 {
        lines.push(format!("  and {} more", damaged.files.more));
    }
    if damaged.files.unasked {
        let scrub = format!("`forebay scrub {token}` finds them when it does");
        lines.push(format!("  perhaps more: a node that knows of some does not answer; {scrub}"));
    } else if damaged.files.files.is_empty() && damaged.files.more == 0 {
        lines.push("  none is known".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use model::Token;
    use wire::node::PartFiles;

    use super::*;

    #[test]
    fn where_a_node_could_not_be_asked_nobody_is_told_that_no_file_is_known() {
        let files = PartFiles { unasked: true, ..PartFiles::default() };
        let lines =
            lacking("n1", &Damaged { token: Token::literal("b"), nodes: vec![], files, names_lack: false });
        assert!(lines.iter().all(|line| !line.contains("none is known")), "{lines:?}");
        assert!(lines.iter().any(|line| line.contains("does not answer")), "{lines:?}");
    }

    #[test]
    fn a_node_that_had_nothing_is_said_to_be_drained_with_how_to_undo_that() {
        assert_eq!(
            text("n1", &Lost::default(), true),
            "node n1 had no part of any buffer\nnode n1 is drained; when it is back, `dwcli update node --name n1 \
             --no-drain` puts it to use again"
        );
    }
}
