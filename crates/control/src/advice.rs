//! What nodes advise, made fit for who reads it: a node knows neither the buffer's token, nor whether another node
//! could take its place, nor where its own log is.

use std::path::Path;

use daemon::error::site;
use wire::advice::{self, NO_SUCH_FRAGMENT};
use wire::control::ApiError;

use crate::site::Site;

/// What the node `node` said of its part of the buffer `token`.
pub(crate) fn of_node<S: Site>(of: &S, node: &str, token: &str, error: ApiError) -> ApiError {
    let said = advice::of_buffer(&error.advice, token);
    let advice = match error.code == NO_SUCH_FRAGMENT {
        true => format!("{said}; {}", lost_for_good(of.cluster().is_some(), node, token)),
        false => said,
    };
    ApiError { advice, ..error }
}

/// What to do where a node never gets back what it had.
fn lost_for_good(is_cluster: bool, node: &str, token: &str) -> String {
    match is_cluster {
        true => format!(
            "where all that the node had is lost for good, stop it and call `forebay node lost {node}` as an operator"
        ),
        // The nodes of one machine share its disk: none takes the place of another.
        false => format!("where it is lost for good, give the buffer up with `forebay rm {token}`"),
    }
}

/// A node of this machine that logs in `log` does not run.
pub(crate) fn absent(log: &Path, name: &str, why: &str) -> ApiError {
    let advice = format!("look into {}; `forebay status` shows when the node is back", log.display());
    site("node_absent", format!("node {name} does not run: {why}"), advice)
}

/// One does not end.
pub(crate) fn lingers(log: &Path, name: &str) -> ApiError {
    let message = format!("node {name} does not end in time");
    site("node_does_not_end", message, format!("look into {}", log.display()))
}

/// Where to look for what a node's service has logged.
pub(crate) fn log_of<S: Site>(of: &S, node: &str) -> String {
    let view = of.nodes().into_iter().find(|view| view.name == node);
    look_into(&view.map(|view| view.log).unwrap_or_default(), node)
}

/// Where the log is that is at `log`, or if that is empty, that of `node`.
pub(crate) fn look_into(log: &str, node: &str) -> String {
    match log.is_empty() {
        true => format!("look into the log of forebay-node on {node}"),
        false => format!("look into {log}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn giving_up_a_node_is_only_advised_where_another_can_take_its_place() {
        assert!(lost_for_good(true, "n2", "7").contains("`forebay node lost n2`"));
        assert!(!lost_for_good(false, "n2", "7").contains("node lost"));
        assert!(lost_for_good(false, "n2", "7").contains("`forebay rm 7`"));
    }

    #[test]
    fn a_log_is_named_by_its_path_where_that_is_known() {
        assert_eq!(look_into("/b/log/n0.log", "n0"), "look into /b/log/n0.log");
        assert_eq!(look_into("", "n0"), "look into the log of forebay-node on n0");
    }
}
