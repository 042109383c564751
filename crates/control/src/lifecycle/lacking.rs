//! Which files of a buffer lack something since a node was lost.

use model::{FragmentIndex, NodeName};
use wire::control::ApiError;
use wire::node::{FragmentSpec, PartFiles, StorageAddress};

use super::target::{self, Described};
use super::{fragments, join_all};
use crate::app::App;
use crate::site::{NodeView, Site};

/// Which files lack something, and whether names may lack.
pub(super) type Lacking = (PartFiles, bool);

/// The files that lack something since a node was lost, now or before, as the nodes say that serve the parts. Those
/// that are being filled are waited for.
///
/// # Errors
/// A node's that cannot serve its part; the database's.
pub(super) async fn told<S: Site>(
    app: &App<S>,
    of: &Described,
    addresses: &[StorageAddress],
) -> Result<Option<Lacking>, ApiError> {
    let specs = fragments::specs(app, of, addresses).await?;
    let views = app.site.nodes();
    let is_local = app.site.cluster().is_none();
    // Those of one machine were waited for.
    let is_online = |name: &NodeName| is_local || views.iter().any(|view| view.name == *name && view.online);
    let nodes = of.instance.nodes.iter().zip(&specs);
    let asked = nodes.filter(|(node, spec)| is_online(node) && !is_older(&views, node, spec));
    // What is made again on one machine is waited for, as its nodes end with the command.
    let times = if is_local { fragments::ASKED_MAX } else { 1 };
    let told = asked.map(|(node, spec)| fragments::ask(app, node, spec, times));
    let (mut lost, mut unnamed, mut names_lack) = (Vec::new(), 0, false);
    for status in join_all(told).await {
        let status = status?;
        lost.extend(status.lost);
        unnamed += status.lost_more;
        names_lack |= status.copies.iter().any(|copy| copy.accepted);
    }
    if lost.is_empty() && !names_lack {
        return Ok(None);
    }
    lost.sort_unstable();
    lost.dedup();
    let mut files = PartFiles::default();
    for node in of.instance.nodes.iter().filter(|node| is_online(node)) {
        // Whose home is elsewhere, or does not answer, is counted with the rest.
        let Ok(paths) = app.site.paths(node, &of.instance.id, &lost).await else { continue };
        files.files.extend(paths.into_iter().flatten());
    }
    files.files.sort();
    files.files.dedup();
    files.more = unnamed + (lost.len() as u64).saturating_sub(files.files.len() as u64);
    Ok(Some((files, names_lack)))
}

/// Whether the node serves the fragment in a lower term: asked for it in a higher one, it would take that for its end.
fn is_older(views: &[NodeView], name: &NodeName, spec: &FragmentSpec) -> bool {
    let health = views.iter().filter(|view| view.name == *name).filter_map(|view| view.health.as_ref());
    let mut parts = health.flat_map(|health| &health.fragments);
    parts.any(|part| part.instance == spec.instance && part.error.is_none() && part.term < spec.term)
}

/// The files that have data on these fragments, as all homes say. What a home does not say a scrub finds.
pub(super) async fn files_on<S: Site>(app: &App<S>, of: &Described, places: &[FragmentIndex]) -> PartFiles {
    let mut all = PartFiles::default();
    for (home, node) in FragmentIndex::of_each(&of.instance.nodes) {
        if target::homes(&app.site, of, home).is_empty() {
            continue;
        }
        for place in places {
            match app.site.files_on(node, &of.instance.id, *place).await {
                Ok(some) => {
                    all.files.extend(some.files);
                    all.more += some.more;
                }
                Err(error) => {
                    let instance = &of.instance.id;
                    tracing::warn!(?node, ?instance, %error, "cannot ask which files had data on a lost node");
                    all.unasked = true;
                }
            }
        }
    }
    all.files.sort();
    all.files.dedup();
    all
}
