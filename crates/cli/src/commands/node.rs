//! `forebay node lost`: an operator gives up a storage node of a cluster.

use wire::control::{Damaged, GiveUp, Lost};

use super::cluster::Control;
use crate::arguments::Node;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::output::Output;

/// Gives it up; the exit status says whether every buffer goes on.
///
/// # Errors
/// No cluster is configured, or its control is not to be reached, or refuses.
pub fn run(command: &Node, cluster: bool, output: &Output) -> Result<u8, Failure> {
    let Node::Lost { name, accept_loss, json } = command;
    if !cluster {
        return Err(Failure::usage(
            "only on a cluster can other nodes take the place of a lost one: those of one machine share its disk",
            "`forebay status` says what each buffer lacks, and `forebay rm TOKEN` gives one up; for a cluster leave \
             --dir and FOREBAY_DIR out, and set FOREBAY_CONTROL where its control is elsewhere",
        ));
    }
    let path = format!("/v1/nodes/{name}/lost");
    let lost: Lost = Control::of_cluster(output).post(&path, &GiveUp { accept_loss: *accept_loss })?;
    if *json {
        output.object(&lost);
    } else {
        output.say(&text(name, &lost));
    }
    let is_whole = lost.at_risk.is_empty() && lost.damaged.is_empty();
    let exit = if is_whole { ExitCode::Success } else { ExitCode::Unavailable };
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
    lines.extend(lost.damaged.iter().flat_map(|damaged| lacking(name, damaged)));
    for damaged in lost.damaged.iter().filter(|damaged| damaged.names_lack) {
        lines.push(format!(
            "buffer {}: names and attributes that an fsync confirmed MAY BE MISSING OR OLD: the copy that they were \
             taken from may have lacked them",
            damaged.token
        ));
    }
    for risk in &lost.at_risk {
        lines.push(format!("buffer {}: LACKS what node {name} had: {}", risk.token, risk.why));
    }
    if lines.is_empty() {
        lines.push(format!("node {name} had no part of any buffer"));
    }
    lines.push(format!(
        "node {name} is drained; when it is back, `dwcli update node --name {name} --no-drain` puts it to use again"
    ));
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
    lines.extend(damaged.files.files.iter().map(|file| format!("  {file}")));
    if damaged.files.more > 0 {
        lines.push(format!("  and {} more", damaged.files.more));
    }
    if damaged.files.files.is_empty() {
        lines.push("  none is known".to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_had_nothing_is_said_to_be_drained_with_how_to_undo_that() {
        assert_eq!(
            text("n1", &Lost::default()),
            "node n1 had no part of any buffer\nnode n1 is drained; when it is back, `dwcli update node --name n1 \
             --no-drain` puts it to use again"
        );
    }
}
