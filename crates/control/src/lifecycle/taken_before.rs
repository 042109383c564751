//! A place of a lost node that another node took before: control's database is a copy that is older than the loss.
//!
//! **Invariant:** only what a node serves with the instance's key, in the term that it says, is noted.

use model::{FragmentIndex, NodeName, Token};
use wire::control::ApiError;

use super::fragments;
use super::target::Described;
use crate::app::App;
use crate::site::{NodeView, Site};
use crate::state::fragments as places;
use crate::state::instances::Instance;
use crate::state::leftovers::{self as left, Leftover};

/// Where another node serves the fragment `place` already, that is noted again.
///
/// # Errors
/// The node's that serves it, as where the part is another buffer's; the database's.
pub(super) async fn find<S: Site>(
    app: &App<S>,
    token: &Token,
    (described, place): (&Described, FragmentIndex),
    lost: &NodeView,
) -> Result<Option<Instance>, ApiError> {
    let instance = &described.instance;
    let serves = |view: NodeView| {
        let health = view.health.filter(|_| view.online && !instance.nodes.contains(&view.name))?;
        let mut parts = health.fragments.into_iter();
        let part = parts.find(|part| part.instance == instance.id && part.index == place && part.term > 0)?;
        (part.given_up.is_none() && part.error.is_none()).then_some((view.name, part.term))
    };
    let all = app.site.nodes().into_iter().filter_map(serves);
    let Some((found, term)) = all.max_by_key(|(_, term)| *term) else { return Ok(None) };
    let to_found = |node: &NodeName| if *node == lost.name { found.clone() } else { node.clone() };
    let moved = Instance { nodes: instance.nodes.iter().map(to_found).collect(), ..instance.clone() };
    // It has the instance's key, or refuses. Where the others are it knows: they may have been lost as well.
    let of = Described { instance: moved.clone(), ..described.clone() };
    if let Some(spec) = fragments::specs(app, &of, &[]).await?.into_iter().nth(place.place()) {
        app.site.create_fragment(&found, &spec).await?;
    }
    let (token, name, id) = (token.to_owned(), lost.name.clone(), instance.id.clone());
    let note = move |tx: &rusqlite::Transaction<'_>| {
        places::replaced(tx, &token, (&name, &found), term)?;
        left::add(tx, &Leftover::fragment(&name, &id))
    };
    app.database.transact(note).await?;
    Ok(Some(moved))
}
