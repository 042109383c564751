//! A part of a mirrored buffer of one machine is gone for good, as with its disk: its node makes it again, with all
//! that the mirror has. No other node takes its place, as on a cluster ([`super::lost`]).
//!
//! The next term is noted before the part is made in it. Where that is cut short, the next call takes another term.
//!
//! **Invariant:** only a part that its node does not have is made again, and only where the node with its mirror has
//! its own.

use daemon::error::user;
use model::{FragmentIndex, NodeName, Token};
use wire::control::{ApiError, ErrorCode, GiveUp};
use wire::node::FragmentStatus;

use super::doubt;
use super::target::{self, Described};
use crate::app::App;
use crate::site::{NodeView, Site};
use crate::state::fragments::{self as places, State};
use crate::state::instances::Instance;

/// Those of the buffers of which the node has not the part that it has always had.
///
/// # Errors
/// It has all; the node does not come up.
pub(super) async fn lacking<S: Site>(
    app: &App<S>,
    name: &NodeName,
    all: Vec<(Token, Described)>,
) -> Result<Vec<(Token, Described)>, ApiError> {
    let mut lacking = Vec::new();
    let mut there = None;
    for (token, described) in all {
        target::addresses(app, &described.instance).await?;
        let part = part_on(app, name, &described.instance).await?;
        match part.is_some_and(|part| part.error.is_none() && part.term == 0) {
            true => there = Some(described.instance.id),
            false => lacking.push((token, described)),
        }
    }
    match there {
        Some(id) if lacking.is_empty() => {
            let message = format!("node {name} has its part of every buffer: nothing is lost");
            let advice = format!(
                "to have a part made again, unmount its buffer and move the part's folder away, as \
                 nodes/{name}/fragments/{id} in the state folder, then repeat the command"
            );
            Err(user(ErrorCode::NothingLost, message, advice))
        }
        _ => Ok(lacking),
    }
}

/// Notes that the fragment `place` is made again, and how; `None` where an earlier call had it made.
///
/// # Errors
/// It is there; its mirror is gone, too; it is not known what that lacks, and nobody accepts it.
pub(super) async fn begin<S: Site>(
    app: &App<S>,
    token: &Token,
    (described, place): (&Described, FragmentIndex),
    (gone, asked): (&NodeView, &GiveUp),
) -> Result<Option<State>, ApiError> {
    let (instance, name) = (&described.instance, &gone.name);
    if !instance.is_mirrored() {
        let message = "the buffer is not mirrored: what this part had is nowhere else";
        return Err(user(
            ErrorCode::NotMirrored,
            message,
            format!("`forebay rm {token}` gives the buffer up"),
        ));
    }
    let id = instance.id.clone();
    let states = app.database.transact(move |tx| places::states(tx, &id)).await?;
    let term = states.get(place.place()).map_or(0, |(_, term)| *term);
    if let Some(part) = part_on(app, name, instance).await? {
        return if part.term > 0 && part.term >= term { Ok(None) } else { Err(there(name, instance, &part)) };
    }
    // Its node has the mirror.
    let keeper = &instance.nodes[(place.place() + 1) % instance.nodes.len()];
    if part_on(app, keeper, instance).await?.is_none() {
        let message = format!(
            "the part on node {keeper}, which has the mirror, is gone as well: bring one of them back, or give the \
             buffer up with `forebay rm {token}`"
        );
        return Err(user(ErrorCode::MirrorLost, message, "bring one of them back"));
    }
    let word = app.site.give_up(name, &instance.id);
    let state = doubt::judged(&app.site, token, (described, place), (name, &word), asked)?;
    let (token, name) = (token.to_owned(), name.clone());
    let note = move |tx: &rusqlite::Transaction<'_>| places::replaced(tx, &token, (&name, &name), term + 1);
    app.database.transact(note).await?;
    Ok(Some(state))
}

/// What the node has of the instance, as it says now.
async fn part_on<S: Site>(
    app: &App<S>,
    name: &NodeName,
    instance: &Instance,
) -> Result<Option<FragmentStatus>, ApiError> {
    let health = app.site.health(name).await?;
    Ok(health.fragments.into_iter().find(|fragment| fragment.instance == instance.id))
}

fn there(name: &NodeName, instance: &Instance, part: &FragmentStatus) -> ApiError {
    let why = part.error.as_deref().unwrap_or("it is served");
    let message = format!(
        "its part is there, in nodes/{name}/fragments/{} of the state folder: {why}; mend that, put back the folder \
         that took its place, or move this one away while the buffer is not mounted and repeat the command",
        instance.id
    );
    user(ErrorCode::PartThere, message, "mend it, or move it away")
}
