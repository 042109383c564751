//! What a node of an earlier release does not know: it is not asked for that, as it would not obey.

use daemon::error::site;
use model::NodeName;
use wire::control::{ApiError, ErrorCode};

use crate::site::Site;

/// Refuses the first of the nodes that has said that it does not know this option of the pool.
///
/// # Errors
/// `node_too_old`.
pub(super) fn check<'a>(
    site: &impl Site,
    nodes: impl IntoIterator<Item = &'a NodeName>,
    (option, pool): (&str, &str),
) -> Result<(), ApiError> {
    let views = site.nodes();
    let knows_not = |name: &&NodeName| {
        let health = views.iter().find(|view| view.name == **name).and_then(|view| view.health.as_ref());
        health.is_some_and(|health| !health.knows.iter().any(|known| known == option))
    };
    nodes.into_iter().find(knows_not).map_or(Ok(()), |node| Err(too_old(node, (option, pool))))
}

fn too_old(node: &NodeName, (option, pool): (&str, &str)) -> ApiError {
    let message = format!(
        "forebay-node on node {node} is of a release that does not know {option}, which this buffer of pool {pool} has"
    );
    let advice = format!("install this release on {node} and restart forebay-node there");
    site(ErrorCode::NodeTooOld, message, advice)
}
