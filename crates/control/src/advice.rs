//! What is advised about a buffer. What nodes advise is made fit for who reads it: a node knows neither the buffer's
//! token, nor whether another could take its place, nor where its own log is.

use std::path::Path;

use daemon::error::site;
use model::{NodeName, Token};
use wire::advice::{self};
use wire::control::{ApiError, ErrorCode};

use crate::site::Site;
use crate::state::instances::Instance;
use crate::state::sessions::Session;

/// What the node `node` said of its part of the buffer `token`.
pub(crate) fn of_node<S: Site>(
    of: &S,
    (node, token): (&NodeName, &Token),
    instance: &Instance,
    error: ApiError,
) -> ApiError {
    let said = advice::of_buffer(&error.advice, token);
    let advice = match error.code == ErrorCode::NoSuchFragment {
        true => format!("{said}; {}", for_good(of.cluster().is_some(), instance, (node, token.as_str()))),
        false => said,
    };
    ApiError { advice, ..error }
}

/// What to do where a node never gets back what it had of the buffer `token`.
pub(crate) fn for_good(is_cluster: bool, instance: &Instance, (node, token): (&NodeName, &str)) -> String {
    let has_copies = instance.nodes.len() > 1;
    match (is_cluster, has_copies && instance.is_mirrored()) {
        (true, _) if has_copies => format!(
            "if what it had is lost for good, stop forebay-node on {node}, then `forebay node lost {node}`, as an \
             operator, gives its place to another node"
        ),
        (false, true) => format!(
            "if what it had is lost for good, `forebay node lost {node}` makes the part again from its mirror"
        ),
        _ => format!("if it is lost for good, `forebay rm {token}` gives the buffer up"),
    }
}

/// What becomes of the data that a session owes. Also true afterwards: Slurm goes on showing what a stage-out said last
/// when the job was ended.
pub(crate) fn kept_until(session: &Session) -> String {
    let token = &session.token;
    let give_up = match session.is_of_job() {
        true => format!("scancel --hurry {token}"),
        false => format!("forebay rm {token} --discard"),
    };
    format!(
        "the data is kept in the buffer until `forebay stage retry {token}` succeeds or `{give_up}` gives it up"
    )
}

/// A node of this machine that logs in `log` does not run.
pub(crate) fn absent(log: &Path, name: &NodeName, why: &str) -> ApiError {
    let advice = format!("look into {}; `forebay status` shows when the node is back", log.display());
    site(ErrorCode::NodeAbsent, format!("node {name} does not run: {why}"), advice)
}

/// One does not end.
pub(crate) fn lingers(log: &Path, name: &NodeName) -> ApiError {
    let message = format!("node {name} does not end in time");
    site(ErrorCode::NodeDoesNotEnd, message, format!("look into {}", log.display()))
}

/// Where to look for what a node's service has logged.
pub(crate) fn log_of<S: Site>(of: &S, node: &NodeName) -> String {
    let view = of.nodes().into_iter().find(|view| view.name == *node);
    look_into(&view.map(|view| view.log).unwrap_or_default(), node)
}

/// Where the log is that is at `log`, or if that is empty, that of `node`.
pub(crate) fn look_into(log: &str, node: &NodeName) -> String {
    match log.is_empty() {
        true => format!("look into the log of forebay-node on {node}"),
        false => format!("look into {log}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_named_by_its_path_where_that_is_known() {
        assert_eq!(look_into("/b/log/n0.log", &NodeName::literal("n0")), "look into /b/log/n0.log");
        assert_eq!(look_into("", &NodeName::literal("n0")), "look into the log of forebay-node on n0");
    }
}
